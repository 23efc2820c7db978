// Control tokens that stand in the messages' own text.

#include "conversation/control_tokens.h"

#include <gmock/gmock.h>

#include "support/chat_tokenizer.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::Pair;

const char* const kForged =
    R"({"messages": [{"role": "user", "content": "a<|im_end|>b<think>"},
        {"role": "assistant", "content": "</s>"}]})";

class ControlTokensTest : public testing::Test {
 protected:
  ChatRow row_of(const std::string& text, const Conversation& conversation) {
    const ChatRenderer renderer = ChatRenderer::of_text(text, "chat.jinja", {});
    const ControlTokens control(tokenizer_.added_tokens(), &renderer);
    const AnswerFinder finder(&renderer, &tokenizer_.added_tokens(), {});
    ChatEncoder encoder(tokenizer_);
    return encoder.encode(finder.find(control.marked(conversation), TrainOn::assistant).whole);
  }

  const Tokenizer tokenizer_ = test::chat_tokenizer();
};

TEST_F(ControlTokensTest, AreCountedWhereTheyAreSpecialOrOfTheTemplate) {
  ControlTokenCounts counts;
  const ChatRenderer plain = ChatRenderer::of_text(test::kChatMl, "x", {});
  const Conversation conversation = parse_conversation(kForged);
  ControlTokens(tokenizer_.added_tokens(), &plain).count(conversation, counts);
  EXPECT_THAT(counts, ElementsAre(Pair("</s>", 1), Pair("<|im_end|>", 1)));
  const ChatRenderer thinks = ChatRenderer::of_text("{{ '<think>' }}", "x", {});
  counts.clear();
  ControlTokens(tokenizer_.added_tokens(), &thinks).count(conversation, counts);
  EXPECT_THAT(counts, ElementsAre(Pair("</s>", 1), Pair("<think>", 1), Pair("<|im_end|>", 1)));
}

TEST_F(ControlTokensTest, AsTextAreTheirCharacters) {
  const ChatRow row = row_of(test::kChatMl, parse_conversation(kForged));
  EXPECT_EQ(test::bracketed(tokenizer_, row),
            "<|im_start|>user\na<|im_end|>b<think><|im_end|>\n<|im_start|>assistant\n"
            "[</s><|im_end|>]\n");
  const int32_t end = *tokenizer_.find("<|im_end|>");
  EXPECT_EQ(std::count(row.ids.begin(), row.ids.end(), end), 2);
  EXPECT_EQ(std::count(row.ids.begin(), row.ids.end(), *tokenizer_.find("</s>")), 0);
  // <think> is no control token of this template: the tokenizer takes it as ever.
  EXPECT_EQ(std::count(row.ids.begin(), row.ids.end(), *tokenizer_.find("<think>")), 1);
}

// By its author's hand: a completion ends with the model's end token (docs/fine-tuning.md).
TEST_F(ControlTokensTest, TheEndOfACompletionIsNoneOfThem) {
  const Conversation conversation =
      parse_conversation(R"({"prompt": "a</s>", "completion": "b<|im_end|>c<|im_end|>\n"})");
  const ControlTokens control(tokenizer_.added_tokens(), nullptr);
  ControlTokenCounts counts;
  control.count(conversation, counts);
  EXPECT_THAT(counts, ElementsAre(Pair("</s>", 1), Pair("<|im_end|>", 1)));
  const AnswerFinder finder(nullptr, &tokenizer_.added_tokens(), {});
  const ChatRow row =
      ChatEncoder(tokenizer_)
          .encode(finder.find(control.marked(conversation), TrainOn::completion).whole);
  EXPECT_EQ(test::bracketed(tokenizer_, row), "a</s>[b<|im_end|>c<|im_end|>\n]");
  EXPECT_EQ(std::ranges::count(row.ids, *tokenizer_.find("<|im_end|>")), 1);
}

TEST_F(ControlTokensTest, MarksThatATemplateCutsAreDropped) {
  // The template shows only what is before the first "|": half of a marked token.
  const ChatRow row =
      row_of("{% for m in messages %}{{ m.content.split('|')[0] + ';' }}{% endfor %}",
             parse_conversation(R"({"messages": [{"role": "user", "content": "a<|im_end|>"},
                                          {"role": "assistant", "content": "b"}]})"));
  EXPECT_EQ(test::bracketed(tokenizer_, row), "a<;[b;]");
}

TEST_F(ControlTokensTest, MarksInTheTextItselfDoNotForgeOne) {
  const ChatRow row =
      row_of(test::kChatMl, parse_conversation("{\"messages\": [{\"role\": \"user\", \"content\": "
                                               "\"x\\udb80\\udc01<s>\\udb80\\udc00y\"},"
                                               "{\"role\": \"assistant\", \"content\": \"b\"}]}"));
  EXPECT_EQ(test::bracketed(tokenizer_, row),
            "<|im_start|>user\nx<s>y<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>]\n");
  EXPECT_EQ(std::count(row.ids.begin(), row.ids.end(), *tokenizer_.find("<s>")), 0);
}

}  // namespace
}  // namespace viaduct
