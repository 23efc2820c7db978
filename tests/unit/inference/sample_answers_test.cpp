// The prompts of validation.sample_prompts, as messages or as texts.

#include "inference/sample_answers.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "data/dataset_builder.h"
#include "data/indexed_dataset_writer.h"
#include "data/token_record.h"
#include "run/template_warnings.h"
#include "support/chat_tokenizer.h"
#include "support/conversations.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr char kPut[] = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
constexpr char kMessages[] = R"({"messages": [{"role": "user", "content": "Hi"}]})";

class SamplePromptFiles : public testing::Test {
 protected:
  SamplePromptFiles() { write_chat_model(folder_ / "model", kChatMl); }

  SamplePrompts read(const std::string& name, const std::string& text, bool as_messages,
                     const std::string& model = "model") const {
    write_file_atomically(folder_ / name, text);
    const PromptAsking asking{.as_messages = as_messages, .tokenizer = folder_ / model};
    return read_sample_prompts(folder_ / name, tokenizer_, asking, 100, 20);
  }
  void write_model_without_template() const {
    write_chat_model(folder_ / "plain", kChatMl);
    std::filesystem::remove(folder_ / "plain" / "tokenizer_config.json");
  }

  TemporaryFolder folder_;
  Tokenizer tokenizer_ = chat_tokenizer();
};

/// Of a model with an encoder the prompt takes no room of the answer.
TEST_F(SamplePromptFiles, AnEncoderReadsThem) {
  ModelConfig model;
  model.encoder = {.layers = 2, .start_token = 3};
  model.end_tokens = {1};
  write_file_atomically(folder_ / "a.txt", "Hi there\n");
  const PromptAsking asking{.tokenizer = folder_ / "model", .encoder = &model};
  const Prompt prompt =
      read_sample_prompts(folder_ / "a.txt", tokenizer_, asking, 6, 20).prompts.front();
  std::vector<int32_t> input = tokenizer_.encode("Hi there");
  input.push_back(1);
  EXPECT_EQ(prompt.input, input);
  EXPECT_EQ(prompt.ids, std::vector<int32_t>{3});
  EXPECT_EQ(prompt.max_new_tokens, 5);
  EXPECT_FALSE(prompt.continues);
}

TEST_F(SamplePromptFiles, LinesAreMessagesOrTexts) {
  const SamplePrompts messages = read("a.txt", "Hi\n", true), texts = read("a.txt", "Hi\n", false);
  EXPECT_EQ(messages.texts[0].text, kPut);
  EXPECT_EQ(tokenizer_.decode(messages.prompts[0].ids), kPut);
  EXPECT_EQ(messages.end_of_turn, tokenizer_.find("<|im_end|>"));
  EXPECT_THAT(messages.form,
              AllOf(HasSubstr("1 prompt is put as a conversation, by the chat template of "),
                    EndsWith("model")));
  EXPECT_EQ(texts.texts[0].text, "Hi");
  EXPECT_EQ(texts.end_of_turn, std::nullopt);
  EXPECT_THAT(texts.form, HasSubstr("1 prompt is continued as it stands"));
}

TEST_F(SamplePromptFiles, MessagesAreConversationsInAnyRun) {
  const std::string lines = std::string(kMessages) + "\n{\"prompt\": \"Hi\"}\n";
  for (const bool as_messages : {false, true}) {
    const SamplePrompts read_ones = read("a.jsonl", lines, as_messages);
    EXPECT_EQ(read_ones.texts[0].text, kPut);
    EXPECT_EQ(read_ones.texts[1].text, as_messages ? kPut : "Hi");
    EXPECT_EQ(read_ones.end_of_turn, tokenizer_.find("<|im_end|>"));
  }
  EXPECT_THAT(read("a.jsonl", lines, false).form,
              HasSubstr("; 1 prompt is continued as it stands"));
}

TEST_F(SamplePromptFiles, WithoutATemplatePromptsAreTextsWhichIsSaid) {
  write_model_without_template();
  const SamplePrompts texts = read("a.txt", "Hi\n", true, "plain");
  EXPECT_EQ(texts.texts[0].text, "Hi");
  EXPECT_THAT(texts.form, HasSubstr("has no chat template"));
  EXPECT_THAT([&] { read("a.jsonl", std::string(kMessages) + "\n", false, "plain"); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("validation.sample_prompts: "),
                                               HasSubstr("a.jsonl line 1: a conversation"))));
}

TEST_F(SamplePromptFiles, ListWhatCannotBeAsked) {
  EXPECT_THAT([&] { read("a.txt", "Hi\n\n" + std::string(100, 'a') + "\n", true); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("line 2: empty"),
                                               HasSubstr("line 3: 119 tokens leave no room"))));
  EXPECT_THAT([&] { read("a.jsonl", "{\"messages\": []}\n", true); },
              ThrowsMessage<ConfigError>(HasSubstr("a.jsonl line 1")));
  EXPECT_THAT([&] { read("a.jsonl", "{\"text\": \"Hi\"}\n", true); },
              ThrowsMessage<ConfigError>(HasSubstr("a.jsonl line 1")));
  EXPECT_THAT([&] { read("a.jsonl", "{\"prompt\"\n", true); },
              ThrowsMessage<ConfigError>(HasSubstr("a.jsonl line 1: not valid JSON")));
  EXPECT_THROW(read("a.txt", "", true), ConfigError);
}

TEST(LearnsATemplate, AsTheRecordsOfConversationsSay) {
  TemporaryFolder folder;
  const auto learns = [](const std::vector<std::string>& blend) {
    DatasetConfig config;
    config.blend = blend;
    config.sequence_length = 8;
    DatasetBuilder builder(config);
    return learns_a_template(builder);
  };
  const auto write = [&](const std::string& name) {
    return write_conversations(folder / name, conversations_of({5, 6}));
  };
  const std::string unknown = write("unknown"), texts = write("texts");
  write_token_record(
      texts, {.largest_token = 63, .conversations = ConversationRecord{.train_on = "completion"}});
  IndexedDatasetWriter writer(folder / "plain", TokenType::uint16);
  writer.add_document(std::vector<int32_t>{1, 2, 3});
  writer.finish();
  const std::string plain = (folder / "plain").string();
  EXPECT_TRUE(learns({unknown})) << "data of other programs";
  EXPECT_FALSE(learns({texts})) << "prompt and completion";
  EXPECT_FALSE(learns({plain}));
  EXPECT_TRUE(learns({plain, unknown}));
  write_token_record(
      texts, {.largest_token = 63,
              .conversations = ConversationRecord{.train_on = "assistant", .chat_templates = {7}}});
  EXPECT_TRUE(learns({texts}));
}

}  // namespace
}  // namespace viaduct
