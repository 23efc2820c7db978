#include "generate/chat_prompts.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/error.h"
#include "support/chat_tokenizer.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ChatRenderer renderer_of(const std::string& text) {
  return ChatRenderer::of_text(text, "template", {});
}

class ChatPromptsTest : public testing::Test {
 protected:
  Tokenizer tokenizer_ = test::chat_tokenizer();
  ChatPrompts prompts_{renderer_of(test::kChatMl), tokenizer_, {}};
};

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_F(ChatPromptsTest, AreTheTemplatesTextAndNothingMore) {
  const PromptText prompt = prompts_.prompt(conversation_of("Hi"), "here");
  EXPECT_EQ(prompt.text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(prompt.where, "here");
  ASSERT_TRUE(prompt.ids);
  EXPECT_EQ(tokenizer_.decode(*prompt.ids), prompt.text);
  EXPECT_EQ(prompt.ids->front(), tokenizer_.find("<|im_start|>"));
  const ChatPrompts begun(renderer_of("<s>{{ messages[0].content }}"), tokenizer_, {});
  EXPECT_THAT(*begun.prompt(conversation_of("H"), "").ids,
              ElementsAre(*tokenizer_.find("<s>"), *tokenizer_.find("H")));
}

TEST_F(ChatPromptsTest, KnowTheTokenThatEndsAnAnswer) {
  const auto end_of = [&](const std::string& text) {
    return ChatPrompts(renderer_of(text), tokenizer_, {}).end_of_turn();
  };
  EXPECT_EQ(end_of(test::kChatMl), tokenizer_.find("<|im_end|>"));
  EXPECT_EQ(end_of("{% for m in messages %}{{ m.content }} <s>{% endfor %}"),
            tokenizer_.find("<s>"));
  EXPECT_EQ(end_of("{% for m in messages %}{{ m.content }}\n{% endfor %}"), std::nullopt);
  EXPECT_EQ(end_of("{{ raise_exception('no') }}"), std::nullopt);
  EXPECT_EQ(end_of("nothing"), std::nullopt);
}

TEST_F(ChatPromptsTest, ControlTokensOfTheUserMayBeText) {
  const int32_t end = *tokenizer_.find("<|im_end|>");
  const auto ends = [&](bool as_text) {
    const ChatPrompts prompts(renderer_of(test::kChatMl), tokenizer_,
                              {.control_tokens_as_text = as_text});
    const PromptText prompt = prompts.prompt(conversation_of("a<|im_end|>b"), "x");
    EXPECT_EQ(prompt.text, "<|im_start|>user\na<|im_end|>b<|im_end|>\n<|im_start|>assistant\n");
    EXPECT_EQ(tokenizer_.decode(*prompt.ids), prompt.text);
    return std::count(prompt.ids->begin(), prompt.ids->end(), end);
  };
  EXPECT_EQ(ends(false), 2);
  EXPECT_EQ(ends(true), 1);
}

TEST_F(ChatPromptsTest, RefuseWhatCannotBeAnswered) {
  const auto problem = [&](const std::string& line) {
    return message_of([&] { prompts_.prompt(read_conversation(line, "line 1"), "line 1"); });
  };
  EXPECT_EQ(problem(R"({"messages": [{"role": "user", "content": "a"}]})"), "");
  EXPECT_THAT(problem(R"({"messages": []})"), HasSubstr("line 1"));
  EXPECT_THAT(problem(R"({"messages": [{"role": "assistant", "content": "a"}]})"),
              HasSubstr("the last message is an answer"));
  EXPECT_THAT(problem(R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})"),
              HasSubstr("\"image\", and texts alone are answered"));
  EXPECT_THAT(problem(R"({"messages": [{"role": "user", "content": ["x"]}]})"),
              HasSubstr("line 1: a part of a message's content has no type"));
  EXPECT_THAT(problem(R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})"),
              HasSubstr("line 1: 'text' is missing"));
  EXPECT_THAT(problem(R"({"messages": [{"role": "user"}]})"),
              HasSubstr("line 1: a message of the role 'user' has no content"));
  EXPECT_THAT(problem(R"({"messages": [{"role": "user", "content": 5}]})"),
              HasSubstr("line 1: the content of a message is int"));
  EXPECT_THAT(message_of([&] { prompts_.prompt(conversation_of("a\xff"), "the message"); }),
              HasSubstr("the message: not UTF-8: 1 ill-formed place, the first at byte 2"));
  EXPECT_THAT(
      problem(R"({"image": "a.png", "messages": [{"role": "user", "content": "<image> a"}]})"),
      HasSubstr("the line has pictures ('image'), and texts alone are answered"));
  EXPECT_THAT(problem(R"({"messages": [{"content": "a"}]})"), HasSubstr("role"));
  EXPECT_THAT(problem(R"({"text": "a"})"), HasSubstr("line 1"));
  EXPECT_THAT(problem("no json"), HasSubstr("line 1"));
  const ChatPrompts strict(renderer_of("{{ raise_exception('roles must alternate') }}"), tokenizer_,
                           {});
  EXPECT_THAT(message_of([&] { strict.prompt(conversation_of("a"), "it"); }),
              HasSubstr("roles must alternate"));
}

TEST_F(ChatPromptsTest, RefuseRolesThatNoTemplateKnows) {
  Conversation conversation = conversation_of("Hi");
  conversation.messages.push_back(read_message(R"({"role": "alien", "content": "Hi"})", "line 1"));
  EXPECT_THAT(message_of([&] { prompts_.prompt(conversation, "line 1"); }),
              HasSubstr("line 1: a message has the role 'alien', expected one of system, "));
}

TEST_F(ChatPromptsTest, ShowTheTimeThatTheyAreGiven) {
  const ChatPrompts dated(renderer_of("{{ strftime_now('%Y') }}"), tokenizer_,
                          {.clock = {.year = 2031}});
  EXPECT_EQ(dated.prompt(conversation_of("a"), "").text, "2031");
}

TEST_F(ChatPromptsTest, APromptOfALineIsAMessageOfTheUser) {
  const auto made = make_chat_prompts({{R"({"prompt": "Hi", "id": 7})", "line 1"}}, true, prompts_);
  EXPECT_EQ(made[0].text, prompts_.prompt(conversation_of("Hi"), "").text);
  EXPECT_EQ(made[0].id, "7");
  // What else the line says of the conversation counts, and messages are no prompt's.
  const std::string begin = "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi";
  const std::string user = R"({"role": "user", "content": "Hi"})";
  const auto more = make_chat_prompts(
      {{R"({"prompt": "Hi", "system": "S"})", "line 1"},
       {R"({"prompt": "no", "system": "S", "messages": [)" + user + "]}", "line 2"}},
      true, prompts_);
  EXPECT_THAT(more[0].text, testing::StartsWith(begin));
  EXPECT_EQ(more[1].text, more[0].text);
  EXPECT_THAT(message_of([&] {
                make_chat_prompts({{R"({"prompt": "a", "completion": "b"})", "line 1"},
                                   {R"({"prompt": 5})", "line 2"}},
                                  true, prompts_);
              }),
              testing::AllOf(HasSubstr("line 1: a text without messages"), HasSubstr("line 2: ")));
}

TEST_F(ChatPromptsTest, ListsOfTextAreATextWhereTheTemplateTakesTexts) {
  const auto made = make_chat_prompts(
      {{R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]})",
        "line 1"}},
      true, prompts_);
  EXPECT_EQ(made[0].text, prompts_.prompt(conversation_of("Hi"), "").text);
}

TEST_F(ChatPromptsTest, LinesAreConversationsOrTextsOfAUser) {
  const std::vector<PromptText> lines{
      {R"({"id": {"a": 1}, "messages": [{"role": "user", "content": "Hi"}]})", "line 1"},
      {R"({"messages": [{"role": "user", "content": "Hi"}], "id": null})", "line 2"}};
  const auto made = make_chat_prompts(lines, true, prompts_);
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(made[0].id, R"({"a":1})");
  EXPECT_FALSE(made[0].adapter);
  const auto named = make_chat_prompts(
      {{R"({"adapter": "a", "messages": [{"role": "user", "content": "Hi"}]})", "line 1"}}, true,
      prompts_);
  EXPECT_EQ(named[0].adapter, "a");
  EXPECT_EQ(made[0].text, prompts_.prompt(conversation_of("Hi"), "").text);
  const auto plain = make_chat_prompts({{"Hi", "line 1"}}, false, prompts_);
  EXPECT_EQ(plain[0].text, made[0].text);
  EXPECT_EQ(plain[0].id, "");
  const std::string problems = message_of([&] {
    make_chat_prompts(
        {{"{}", "line 1"},
         lines[0],
         {R"({"adapter": 5, "messages": [{"role": "user", "content": "Hi"}]})", "line 3"}},
        true, prompts_);
  });
  EXPECT_THAT(problems, HasSubstr("line 1"));
  EXPECT_THAT(problems, HasSubstr("line 3: \"adapter\""));
}

}  // namespace
}  // namespace viaduct
