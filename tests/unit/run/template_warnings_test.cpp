// Conversations of another chat template than the model's are said.

#include "run/template_warnings.h"

#include <gmock/gmock.h>

#include "checkpoint/model_folder.h"
#include "conversation/chat_renderer.h"
#include "data/dataset_builder.h"
#include "data/token_record.h"
#include "support/chat_tokenizer.h"
#include "support/conversations.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(TemplateWarnings, NameDataSetsOfAnotherTemplate) {
  test::TemporaryFolder folder;
  test::write_chat_model(folder / "model", test::kChatMl);
  const auto own = ChatRenderer::load(open_tokenizer_files(folder / "model"));
  ASSERT_TRUE(own);
  DatasetConfig config;
  config.blend.emplace();
  const auto add = [&](const char* name, std::optional<ConversationRecord> record) {
    config.blend->push_back(
        test::write_conversations(folder / name, test::conversations_of({8, 9})));
    write_token_record(config.blend->back(), {.conversations = std::move(record)});
  };
  add("same", ConversationRecord{.train_on = "assistant", .chat_templates = {own->hash()}});
  add("older",
      ConversationRecord{.train_on = "assistant", .chat_templates = {own->hash_with_all_tokens()}});
  add("other", ConversationRecord{.train_on = "assistant", .chat_templates = {own->hash() + 1}});
  add("merged", ConversationRecord{.train_on = "assistant", .chat_templates = {own->hash(), 7}});
  add("without", ConversationRecord{.train_on = "assistant"});
  add("unknown", std::nullopt);
  config.sequence_length = 16;
  DatasetBuilder builder(config, 64);
  EXPECT_THAT(template_warnings(builder, folder / "model"),
              ElementsAre(HasSubstr("other: its conversations were made with another chat "
                                    "template than that of"),
                          HasSubstr("merged: some of its conversations were made with another "
                                    "chat template than that of")));

  std::filesystem::remove(folder / "model/tokenizer_config.json");
  EXPECT_THAT(template_warnings(builder, folder / "model"),
              ElementsAre(HasSubstr("model, which has none"), HasSubstr("older: "),
                          HasSubstr("other: "), HasSubstr("merged: its conversations")));
  EXPECT_THAT(template_warnings(builder, ""),
              ElementsAre(HasSubstr("has a tokenizer: viaduct chat")));
  config.blend->resize(1);
  test::write_chat_model(folder / "model", test::kChatMl);
  DatasetBuilder alone(config, 64);
  EXPECT_THAT(template_warnings(alone, folder / "model"), IsEmpty());
}

TEST(TemplateWarnings, SpecialTokensThatATemplateDoesNotNameMakeItNoOther) {
  const SpecialTokenTexts begin{{"bos_token", "<s>"}};
  const ChatRenderer one = ChatRenderer::of_text("{{ bos_token }}", "template", begin);
  const ChatRenderer more = one.with_special_tokens({{"bos_token", "<s>"}, {"unk_token", "<unk>"}});
  EXPECT_EQ(more.hash(), one.hash());
  EXPECT_NE(more.hash_with_all_tokens(), one.hash());
  EXPECT_NE(one.with_special_tokens({{"bos_token", "<b>"}}).hash(), one.hash());
}

}  // namespace
}  // namespace viaduct
