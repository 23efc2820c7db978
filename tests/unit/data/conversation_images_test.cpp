// Rows of conversations with the pictures of their data set, which a double of the reader numbers.

#include <gmock/gmock.h>

#include <algorithm>

#include "base/error.h"
#include "base/output_file.h"
#include "data/dataset_builder.h"
#include "data/image_files.h"
#include "data/score_mask.h"
#include "support/conversations.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// One picture of one pixel a sequence, the sequence's number.
class Numbered final : public RowImages {
 public:
  int32_t token() const override { return 7; }
  void append(int64_t sequence, ImageBatch& batch) const override {
    batch.append({1, 1, 1, 1, {static_cast<float>(sequence)}});
  }
};

class ConversationImages : public testing::Test {
 protected:
  ConversationImages() {
    // The first token tells the conversation.
    prefix_ = test::write_conversations(
        folder_ / "chats",
        {{{10, 7, 7}, {0, 0, 1}}, {{11, 7}, {0, 1}}, {{12, 7, 7, 7}, {0, 0, 0, 1}}});
    for (const char* ending : {".idx", ".bin", ".jsonl"})  // that it has pictures
      write_file_atomically(images_prefix(prefix_) + ending, "");
  }
  DatasetConfig config() const {
    DatasetConfig config;
    config.blend = std::vector{prefix_};
    config.split = "1,0,0";
    config.sequence_length.resolve(8);
    return config;
  }
  static ImageOpener opener() {
    return [](const std::string&, int64_t sequences) {
      EXPECT_EQ(sequences, 3);
      return std::make_shared<Numbered>();
    };
  }
  /// A pass over the data.
  static std::vector<Sample> rows(const DatasetConfig& config) {
    DatasetBuilder builder(config, 64, nullptr, opener());
    const auto source = builder.build(Split::train, std::nullopt);
    std::vector<Sample> all;
    Sample sample;
    for (int64_t i = 0; i < source->size(); ++i) {
      source->get(i, sample);
      all.push_back(sample);
    }
    return all;
  }

  test::TemporaryFolder folder_;
  std::string prefix_;
};

TEST_F(ConversationImages, ComeWithTheirRow) {
  const std::vector<Sample> all = rows(config());
  ASSERT_EQ(all.size(), 3u);
  for (const Sample& row : all) {
    EXPECT_THAT(row.images.pixels, ElementsAre(static_cast<float>(row.tokens[0] - 10)));
    EXPECT_EQ(row.tokens.back(), 0);
  }
}

TEST_F(ConversationImages, OfAPackedRowFollowItsConversations) {
  DatasetConfig packed = config();
  packed.packing.packed_sequence_size = 8;
  packed.packing.packing_algorithm = PackingAlgorithm::sequential;
  size_t pictures = 0;
  for (const Sample& row : rows(packed)) {
    std::vector<float> expected;
    for (const int32_t token : row.tokens)
      if (token >= 10) expected.push_back(static_cast<float>(token - 10));
    EXPECT_EQ(row.images.pixels, expected);
    pictures += expected.size();
  }
  EXPECT_GE(pictures, 3u);
}

TEST_F(ConversationImages, AreNotLearnedWithoutTheMaskEither) {
  DatasetConfig all = config();
  all.packing.answer_only_loss = false;
  for (const Sample& row : rows(all))
    EXPECT_EQ(std::ranges::count(row.loss_mask, 1.0f), 0);  // all but the first tokens are 7
}

TEST_F(ConversationImages, PlacesWithoutATextHaveNoImagesToken) {
  DatasetConfig zero = config();
  zero.images = ImageRowSettings{.channels = 1, .side = 1, .rows = 1, .token = 0};
  for (const Sample& row : rows(zero)) EXPECT_EQ(row.tokens.back(), 1);
}

TEST_F(ConversationImages, AreRefusedWithoutAReader) {
  DatasetBuilder builder(config(), 64);
  EXPECT_THAT([&] { builder.build(Split::train, std::nullopt); },
              ThrowsMessage<ConfigError>(HasSubstr("has pictures")));
  DatasetConfig cut = config();
  cut.packing.packed_sequence_size = 8;
  cut.packing.packing_split = true;
  EXPECT_THAT([&] { rows(cut); }, ThrowsMessage<ConfigError>(HasSubstr("packing_split")));
}

TEST_F(ConversationImages, TheirTokenInDataWithoutPicturesIsNamed) {
  remove_images(prefix_);
  DatasetConfig reads = config();
  reads.images = ImageRowSettings{.channels = 1, .side = 1, .rows = 1, .token = 7};
  const auto refusal = ThrowsMessage<IoError>(
      testing::AllOf(HasSubstr("data set " + prefix_ + ": document "),
                     HasSubstr("has the token of images (id 7) at place 1")));
  EXPECT_THAT([&] { rows(reads); }, refusal);
  remove_mask(prefix_);  // a text
  EXPECT_THAT([&] { rows(reads); }, refusal);
  reads.images->token = 63;
  EXPECT_EQ(rows(reads).size(), 1u);
}

}  // namespace
}  // namespace viaduct
