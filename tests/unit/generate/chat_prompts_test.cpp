#include "generate/chat_prompts.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

const char* const kChatMl =
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// A tokenizer with a token for each printable letter, a beginning token that it adds to texts, and
/// the marks of ChatML.
std::map<std::string, std::string> files_with(const std::string& chat_template) {
  json vocabulary, added = json::array();
  int id = 0;
  for (char c = '!'; c <= '~'; ++c) vocabulary[std::string(1, c)] = id++;
  vocabulary["Ġ"] = id++;
  vocabulary["Ċ"] = id++;
  for (const char* mark : {"<s>", "<|im_start|>", "<|im_end|>"})
    added.push_back({{"id", id++}, {"content", mark}, {"special", true}});
  const json tokenizer{
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"pair", json::array()},
        {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {id - 3}}, {"tokens", {"<s>"}}}}}}}},
      {"added_tokens", added}};
  json config{{"bos_token", "<s>"}};
  if (!chat_template.empty()) config["chat_template"] = chat_template;
  return {{"tokenizer.json", tokenizer.dump()}, {"tokenizer_config.json", config.dump()}};
}

struct Model {
  explicit Model(const std::string& chat_template = kChatMl)
      : files("model", files_with(chat_template)), tokenizer(load_tokenizer(files)) {}
  TokenizerFiles files;
  Tokenizer tokenizer;
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

TEST(ChatPrompts, AreTheTemplatesTextAndNothingMore) {
  const Model model;
  const ChatPrompts prompts(model.files, model.tokenizer, {});
  const PromptText prompt = prompts.prompt(conversation_of("Hi"), "here");
  EXPECT_EQ(prompt.text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(prompt.where, "here");
  ASSERT_TRUE(prompt.ids);
  EXPECT_EQ(model.tokenizer.decode(*prompt.ids), prompt.text);
  EXPECT_EQ(prompt.ids->front(), model.tokenizer.find("<|im_start|>"));
  EXPECT_THAT(*prompt.ids, testing::Not(testing::Contains(*model.tokenizer.find("<s>"))));
}

TEST(ChatPrompts, KnowTheTokenThatEndsAnAnswer) {
  const Model model;
  const auto end_of = [&](const std::string& text) {
    const test::TemporaryFolder folder;
    write_file_atomically(folder / "template", text);
    return ChatPrompts(model.files, model.tokenizer, {.template_file = folder / "template"})
        .end_of_turn();
  };
  EXPECT_EQ(end_of(kChatMl), model.tokenizer.find("<|im_end|>"));
  EXPECT_EQ(end_of("{% for m in messages %}{{ m.content }} <s>{% endfor %}"),
            model.tokenizer.find("<s>"));
  EXPECT_EQ(end_of("{% for m in messages %}{{ m.content }}\n{% endfor %}"), std::nullopt);
  EXPECT_EQ(end_of("{{ raise_exception('no') }}"), std::nullopt);
  EXPECT_EQ(end_of("nothing"), std::nullopt);
}

TEST(ChatPrompts, ControlTokensOfTheUserMayBeText) {
  const Model model;
  const int32_t end = *model.tokenizer.find("<|im_end|>");
  const auto ends = [&](bool as_text) {
    const ChatPrompts prompts(model.files, model.tokenizer, {.control_tokens_as_text = as_text});
    const PromptText prompt = prompts.prompt(conversation_of("a<|im_end|>b"), "x");
    EXPECT_EQ(prompt.text, "<|im_start|>user\na<|im_end|>b<|im_end|>\n<|im_start|>assistant\n");
    EXPECT_EQ(model.tokenizer.decode(*prompt.ids), prompt.text);
    return std::count(prompt.ids->begin(), prompt.ids->end(), end);
  };
  EXPECT_EQ(ends(false), 2);
  EXPECT_EQ(ends(true), 1);
}

TEST(ChatPrompts, RefuseWhatCannotBeAnswered) {
  const Model model;
  const ChatPrompts prompts(model.files, model.tokenizer, {});
  const auto problem = [&](const std::string& line) {
    return message_of([&] { prompts.prompt(read_conversation(line, "line 1"), "line 1"); });
  };
  EXPECT_EQ(problem(R"({"messages": [{"role": "user", "content": "a"}]})"), "");
  EXPECT_THAT(problem(R"({"messages": []})"), HasSubstr("line 1"));
  EXPECT_THAT(problem(R"({"messages": [{"role": "assistant", "content": "a"}]})"),
              HasSubstr("the last message is an answer"));
  EXPECT_THAT(problem(R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})"),
              HasSubstr("\"image\""));
  EXPECT_THAT(problem(R"({"messages": [{"content": "a"}]})"), HasSubstr("role"));
  EXPECT_THAT(problem(R"({"text": "a"})"), HasSubstr("line 1"));
  EXPECT_THAT(problem("no json"), HasSubstr("line 1"));
  const Model strict("{{ raise_exception('roles must alternate') }}");
  EXPECT_THAT(message_of([&] {
                ChatPrompts(strict.files, strict.tokenizer, {}).prompt(conversation_of("a"), "it");
              }),
              HasSubstr("roles must alternate"));
}

TEST(ChatPrompts, NeedATemplate) {
  const Model model("");
  const std::string message = message_of([&] { ChatPrompts(model.files, model.tokenizer, {}); });
  EXPECT_THAT(message, HasSubstr("chat_template.jinja"));
  EXPECT_THAT(message, HasSubstr("--template FILE"));
  EXPECT_THAT(message_of([&] {
                ChatPrompts(model.files, model.tokenizer, {.template_file = "no/such/file"});
              }),
              HasSubstr("no/such/file"));
}

TEST(ChatPrompts, LinesAreConversationsOrTextsOfAUser) {
  const Model model;
  const ChatPrompts prompts(model.files, model.tokenizer, {});
  const std::vector<PromptText> lines{
      {R"({"id": {"a": 1}, "messages": [{"role": "user", "content": "Hi"}]})", "line 1"},
      {R"({"messages": [{"role": "user", "content": "Hi"}], "id": null})", "line 2"}};
  const auto made = make_chat_prompts(lines, true, prompts);
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(made[0].id, R"({"a":1})");
  EXPECT_EQ(made[0].text, prompts.prompt(conversation_of("Hi"), "").text);
  const auto plain = make_chat_prompts({{"Hi", "line 1"}}, false, prompts);
  EXPECT_EQ(plain[0].text, made[0].text);
  EXPECT_EQ(plain[0].id, "");
  const std::string problems = message_of([&] {
    make_chat_prompts(
        {{"{}", "line 1"},
         lines[0],
         {R"({"adapter": "a", "messages": [{"role": "user", "content": "Hi"}]})", "line 3"}},
        true, prompts);
  });
  EXPECT_THAT(problems, HasSubstr("line 1"));
  EXPECT_THAT(problems, HasSubstr("line 3: \"adapter\""));
}

}  // namespace
}  // namespace viaduct
