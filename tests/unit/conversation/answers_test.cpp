// A table of conversations with what is learned of them, character by character.

#include "conversation/answers.h"

#include <gmock/gmock.h>

#include "support/chat_tokenizer.h"

namespace viaduct {
namespace {

using testing::ElementsAre;

/// The rows of a line, what is learned in brackets.
std::vector<std::string> rows_of(const std::string& text, const std::string& line,
                                 std::optional<TrainOn> train_on = std::nullopt) {
  static const Tokenizer tokenizer = test::chat_tokenizer();
  const ChatRenderer renderer =
      ChatRenderer::of_text(text, "chat.jinja", {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  const AnswerFinder finder(&renderer, &tokenizer.added_tokens(), {});
  const Conversation conversation = parse_conversation(line);
  ConversationTexts texts =
      finder.find(conversation, train_on.value_or(default_train_on(conversation)));
  ChatEncoder encoder(tokenizer);
  std::vector<std::string> rows;
  if (!texts.is_covered())
    rows.push_back(test::bracketed(tokenizer, encoder.encode(std::move(texts.whole))));
  for (ConversationText& own : texts.own)
    rows.push_back(test::bracketed(tokenizer, encoder.encode(std::move(own))));
  return rows;
}

/// A model with an encoder reads a prompt as a text, and says another.
TEST(ChatEncoderTest, APromptAndItsCompletionMayBeTextsOfTheirOwn) {
  const Tokenizer tokenizer = test::chat_tokenizer();
  const AnswerFinder finder(nullptr, &tokenizer.added_tokens(), {});
  ChatEncoder encoder(tokenizer);
  for (const auto& [prompt, completion] :
       {std::pair{"on th", "e cat"}, {"Hi", "there"}, {"a ", " b"}}) {
    const Conversation pair = parse_conversation(std::string(R"({"prompt": ")") + prompt +
                                                 R"(", "completion": ")" + completion + "\"}");
    const ConversationTexts texts = finder.find(pair, TrainOn::completion);
    const ChatRow row = encoder.encode(texts.whole, true);
    std::vector<int32_t> expected = encoder.ids(prompt);
    const size_t of_prompt = expected.size();
    const std::vector<int32_t> answer = encoder.ids(completion);
    expected.insert(expected.end(), answer.begin(), answer.end());
    EXPECT_EQ(row.ids, expected);
    for (size_t i = 0; i < row.mask.size(); ++i) EXPECT_EQ(row.mask[i], i >= of_prompt ? 1 : 0);
  }
}

const char* const kTwoTurns =
    R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"},
        {"role": "user", "content": "Why"}, {"role": "assistant", "content": "So"}]})";
const char* const kNotLearned =
    R"({"messages": [{"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Yo", "weight": 0},
        {"role": "user", "content": "Why"}, {"role": "assistant", "content": "So", "weight": 1}]})";

// Llama 2: no special token opens an answer, </s> closes it.
const char* const kInstruct =
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' + "
    "message['content'] + ' [/INST]' }}{% else %}{{ ' ' + message['content'] + eos_token }}{% "
    "endif %}{% endfor %}";
// No special tokens at all.
const char* const kPlain =
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\\n' }}{% "
    "endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}";
// Thoughts of earlier answers are dropped.
const char* const kDropsThoughts =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}{% if "
    "message.reasoning_content and loop.last %}{{ '(' + message.reasoning_content + ')' }}{% "
    "endif %}{{ message['content'] + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt "
    "%}{{ '<|im_start|>assistant\\n' }}{% endif %}";
// The prompt opens a thought that answers do not show.
const char* const kOpensThought =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\\n<think>\\n' }}{% endif %}";

TEST(Answers, GoToTheirLastSpecialToken) {
  EXPECT_THAT(rows_of(test::kChatMl, kTwoTurns),
              ElementsAre("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[Yo<|im_end|>]\n"
                          "<|im_start|>user\nWhy<|im_end|>\n<|im_start|>assistant\n"
                          "[So<|im_end|>]\n"));
  EXPECT_THAT(rows_of(kInstruct, kTwoTurns),
              ElementsAre("<s>[INST] Hi [/INST][ Yo</s>][INST] Why [/INST][ So</s>]"));
}

TEST(Answers, WithoutSpecialTokensAreAllOfTheRest) {
  EXPECT_THAT(rows_of(kPlain, kTwoTurns),
              ElementsAre("user: Hi\nassistant: [Yo\n]user: Why\nassistant: [So\n]"));
}

TEST(Answers, OfGenerationBlocksAreWhatTheTemplateSays) {
  const char* row =
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[Yo<|im_end|>]\n"
      "<|im_start|>user\nWhy<|im_end|>\n<|im_start|>assistant\n[So<|im_end|>]\n";
  EXPECT_THAT(rows_of(test::kChatMlGeneration, kTwoTurns), ElementsAre(row));
}

TEST(Answers, MayBeTheLastAloneOrLeaveSomeOut) {
  const char* row =
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n"
      "<|im_start|>user\nWhy<|im_end|>\n<|im_start|>assistant\n[So<|im_end|>]\n";
  for (const char* text : {test::kChatMl, test::kChatMlGeneration}) {
    EXPECT_THAT(rows_of(text, kTwoTurns, TrainOn::last), ElementsAre(row)) << text;
    EXPECT_THAT(rows_of(text, kNotLearned), ElementsAre(row)) << text;
  }
}

TEST(Answers, MayBeAllButTheFirstToken) {
  EXPECT_THAT(rows_of(kPlain, kTwoTurns, TrainOn::all),
              ElementsAre("u[ser: Hi\nassistant: Yo\nuser: Why\nassistant: So\n]"));
}

TEST(Answers, ThatAreNotLearnedAreNotByAllEither) {
  const char* row =
      "<|im_start|>[user\nHi<|im_end|>\n<|im_start|>assistant\n]Yo<|im_end|>[\n"
      "<|im_start|>user\nWhy<|im_end|>\n<|im_start|>assistant\nSo<|im_end|>\n]";
  for (const char* text : {test::kChatMl, test::kChatMlGeneration})
    EXPECT_THAT(rows_of(text, kNotLearned, TrainOn::all), ElementsAre(row)) << text;
  // Of another message it is all that the message adds.
  const char* line =
      R"({"messages": [{"role": "user", "content": "Hi", "train": false},
          {"role": "assistant", "content": "Yo"},
          {"role": "user", "content": "Why", "weight": 0},
          {"role": "assistant", "content": "So"}]})";
  EXPECT_THAT(rows_of(kPlain, line, TrainOn::all),
              ElementsAre("user: Hi\n[assistant: Yo\n]user: Why\n[assistant: So\n]"));
}

TEST(Answers, ThatAreNotLearnedAndCannotBeFoundAreRefused) {
  const char* line =
      R"({"messages": [{"role": "user", "content": "Hi"},
          {"role": "assistant", "content": "Yo", "thinking": "hm", "train": false},
          {"role": "user", "content": "Why"},
          {"role": "assistant", "content": "So"}]})";
  try {
    rows_of(kDropsThoughts, line, TrainOn::all);
    ADD_FAILURE() << "learned";
  } catch (const InvalidConversation& error) {
    EXPECT_EQ(error.problem(), ConversationProblem::answer_not_found);
    EXPECT_THAT(error.what(), testing::StartsWith("message 2: it is not to be learned"));
  }
}

TEST(Answers, ThatChangeLaterGetRowsOfTheirOwn) {
  const char* line =
      R"({"messages": [{"role": "user", "content": "Hi"},
          {"role": "assistant", "content": "Yo", "thinking": "hm"},
          {"role": "user", "content": "Why"},
          {"role": "assistant", "content": "So", "thinking": "ah"}]})";
  const char* whole =
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n"
      "<|im_start|>user\nWhy<|im_end|>\n<|im_start|>assistant\n[(ah)So<|im_end|>]\n";
  EXPECT_THAT(rows_of(kDropsThoughts, line),
              ElementsAre(whole,
                          "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
                          "[(hm)Yo<|im_end|>]\n"));
  EXPECT_THAT(rows_of(kDropsThoughts, line, TrainOn::last), ElementsAre(whole));
  // Without thoughts the same template hides nothing.
  EXPECT_EQ(rows_of(kDropsThoughts, kTwoTurns), rows_of(test::kChatMl, kTwoTurns));
}

TEST(Answers, BeginWhereTheyLeaveThePrompt) {
  EXPECT_EQ(rows_of(kOpensThought, kTwoTurns), rows_of(test::kChatMl, kTwoTurns));
}

// SmolLM2: a default system message before the first message, if there is one.
const char* const kDefaultSystem =
    "{% for message in messages %}{% if loop.first and messages[0].role != 'system' %}{{ "
    "'<|im_start|>system\nBe good<|im_end|>\n' }}{% endif %}{{ '<|im_start|>' + message.role + "
    "'\n' + message.content + '<|im_end|>\n' }}{% endfor %}";

/// What is said of an answer whose place is not certain; "" of one that is learned.
std::string uncertain(const std::string& text, const char* line) {
  try {
    rows_of(text, line);
  } catch (const InvalidConversation& error) {
    EXPECT_EQ(error.problem(), ConversationProblem::answer_not_found);
    return error.what();
  }
  return "";
}

TEST(Answers, OfAFirstMessageBeginBehindADefaultSystemMessage) {
  const std::string text =
      std::string(kDefaultSystem) +
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  const char* line =
      R"({"messages": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "q"},
          {"role": "assistant", "content": "b"}]})";
  const char* completion =
      R"({"prompt": [], "completion": [{"role": "assistant", "content": "b"}]})";
  EXPECT_THAT(rows_of(text, line),
              ElementsAre("<|im_start|>system\nBe good<|im_end|>\n<|im_start|>assistant\n"
                          "[a<|im_end|>]\n<|im_start|>user\nq<|im_end|>\n"
                          "<|im_start|>assistant\n[b<|im_end|>]\n"));
  EXPECT_THAT(rows_of(text, completion),
              ElementsAre("<|im_start|>system\nBe good<|im_end|>\n<|im_start|>assistant\n"
                          "[b<|im_end|>]\n"));
  // Without a generation prompt only a text that is the header can be told.
  EXPECT_THAT(uncertain(kDefaultSystem, line), testing::HasSubstr("before the first message"));
  EXPECT_THAT(rows_of("{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}",
                      completion),
              ElementsAre("[assistant: b\n]"));
}

TEST(Answers, WithAnotherHeaderThanThePromptAreRefused) {
  const auto chat = [](std::string prompt, const char* role, const char* thought = "") {
    return "{% for m in messages %}{{ '" + std::string(role) + "' + m.content + '<|im_end|>' if " +
           "m.role == 'user' else '" + std::string(role).replace(2, 4, "assistant") + thought +
           "' + m.content + '<|im_end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '" +
           prompt + "' }}{% endif %}";
  };
  for (const char* other : {"model", "ai"}) {
    EXPECT_THAT(uncertain(chat("<|" + std::string(other) + "|>", "<|user|>"), kTwoTurns),
                testing::StartsWith("message 2: the generation prompt does not stand before it"));
    const std::string word = std::string("<s>") + other + "\n";
    EXPECT_THAT(
        uncertain("{% for m in messages %}{{ '<s>' + m.role + '\n' + m.content + '</s>' }}{% "
                  "endfor %}{% if add_generation_prompt %}" +
                      word + "{% endif %}",
                  kTwoTurns),
        testing::HasSubstr("the generation prompt"));
  }
  // A thought that the prompt opens and the answer closes is no header.
  EXPECT_THAT(rows_of(chat("<|assistant|><think>\n", "<|user|>", "<think></think>"), kTwoTurns),
              ElementsAre("<|user|>Hi<|im_end|><|assistant|><think>[</think>Yo<|im_end|>]"
                          "<|user|>Why<|im_end|><|assistant|><think>[</think>So<|im_end|>]"));
}

TEST(Answers, OfTheLastMessageNeedNoFurtherMessages) {
  const char* line =
      R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"},
          {"role": "user", "content": "Bye"}]})";
  EXPECT_THAT(rows_of(test::kChatMl, line, TrainOn::last),
              ElementsAre("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[Yo<|im_end|>]\n"
                          "<|im_start|>user\nBye<|im_end|>\n"));
}

TEST(Answers, OfCompletionsAreTheirs) {
  EXPECT_THAT(rows_of(test::kChatMl, R"({"prompt": "a b", "completion": " c"})"),
              ElementsAre("a b[ c]"));
  EXPECT_THAT(rows_of(test::kChatMl, R"({"input": "a", "output": "bc"})"), ElementsAre("a [bc]"));
  EXPECT_THAT(rows_of(kPlain, R"({"prompt": [{"role": "user", "content": "a"},
                                     {"role": "assistant", "content": "b"},
                                     {"role": "user", "content": "c"}],
                          "completion": [{"role": "assistant", "content": "d"}]})"),
              ElementsAre("user: a\nassistant: b\nuser: c\nassistant: [d\n]"));
}

TEST(Answers, OfCharactersOfSeveralBytesAreWhole) {
  EXPECT_THAT(rows_of(kPlain, R"({"messages": [{"role": "user", "content": "é"},
                                               {"role": "assistant", "content": "éa"}]})"),
              ElementsAre("user: é\nassistant: [éa\n]"));
}

TEST(Answers, AreRefusedWhereTheyHaveNoMeaning) {
  EXPECT_THROW(rows_of(kPlain, kTwoTurns, TrainOn::completion), ConfigError);
  EXPECT_THROW(rows_of(kPlain, R"({"prompt": "a", "completion": "b"})", TrainOn::last),
               ConfigError);
  const auto problem = [](const char* text) {
    try {
      rows_of(text, kTwoTurns);
    } catch (const InvalidConversation& error) {
      return std::string(problem_name(error.problem()));
    }
    return std::string("none");
  };
  EXPECT_EQ(problem("{{ raise_exception('no') }}"),
            problem_name(ConversationProblem::refused_by_template));
  // The reason says which text leads nowhere, and what to do.
  const char* first =
      R"({"messages": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "q"},
          {"role": "assistant", "content": "b"}]})";
  EXPECT_THAT(
      uncertain("{{ messages[0].role[0] }}{% for m in messages %}{{ m.content }}{% endfor %}",
                first),
      testing::AllOf(testing::StartsWith("message 1: the template fails on the text before "
                                         "it, which has no messages: "),
                     testing::HasSubstr("--train-on last")));
  const std::string counts =
      "{{ messages|length }}{% for m in messages %}{{ m.content }}{% endfor %}";
  EXPECT_THAT(
      uncertain(counts, kTwoTurns),
      testing::AllOf(testing::StartsWith("message 2: the text of the messages before it does "
                                         "not begin its text; --train-on last"),
                     testing::HasSubstr("{% generation %}")));
  // The first line has the number of messages.
  EXPECT_EQ(problem("{{ messages|length }}{% for m in messages %}{{ m.content }}{% endfor %}"),
            problem_name(ConversationProblem::answer_not_found));
}

}  // namespace
}  // namespace viaduct
