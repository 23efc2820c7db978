// Conversations with pictures as data of a run: each row has the values that the model's image
// processor makes of its pictures, and data that do not belong to the model are refused.

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/output_file.h"
#include "base/thread_pool.h"
#include "image/image_index.h"
#include "support/picture_conversations.h"
#include "train/training_data.h"

namespace viaduct {
namespace {

using test::Overrides;
using test::operator+;
using test::PictureConversations;
using test::setup_of;
using testing::HasSubstr;
using testing::ThrowsMessage;

HostBatch rows_of(const RunSetup& setup) {
  ThreadPool pool(1);
  return TrainingData(setup, pool, 1, 0).train(0, 0);
}

/// The numbers of the conversations of a batch, which their last tokens tell.
std::vector<int64_t> conversations_of(const HostBatch& batch) {
  std::vector<int64_t> numbers;
  for (const int32_t id : batch.ids)
    if (id >= 20 && id % 5 == 3) numbers.push_back((id - 20) / 5);
  return numbers;
}

/// The pictures of the batch's conversations, one after the other.
ImageBatch expected_images(const PictureConversations& data, const HostBatch& batch) {
  const ImageIndex index(data.prefix(), std::ssize(data.conversations()));
  const auto processor = ImageProcessor::load(data.model());
  ImageBatch images;
  for (const int64_t number : conversations_of(batch)) index.append(number, *processor, images);
  return images;
}

TEST(PictureRows, HaveThePixelsOfTheirPictures) {
  const PictureConversations data;
  const HostBatch batch = rows_of(setup_of(data.run()));
  EXPECT_EQ(conversations_of(batch).size(), 5u);
  EXPECT_EQ(std::ranges::count(batch.ids, 5), 5 * 4);
  EXPECT_EQ(batch.images.count, 5);
  EXPECT_EQ(batch.images.height, 12);
  EXPECT_EQ(batch.images.pixels, expected_images(data, batch).pixels);
}

TEST(PictureRows, MayBePacked) {
  const PictureConversations data;
  const RunSetup setup =
      setup_of(data.run() + Overrides{"dataset.packed_sequence_size=32",
                                      "train.global_batch_size=1", "train.micro_batch_size=1"});
  const HostBatch batch = rows_of(setup);
  EXPECT_GT(conversations_of(batch).size(), 1u);
  EXPECT_EQ(std::ranges::count(batch.ids, 5), batch.images.count * 4);
  EXPECT_EQ(batch.images.pixels, expected_images(data, batch).pixels);
}

TEST(PictureRows, AreKnownToADryRun) {
  const PictureConversations data;
  EXPECT_EQ(setup_of(data.run()).conversations->images, 1);
  EXPECT_GT(
      setup_of(data.run() + Overrides{"dataset.packed_sequence_size=64"}).conversations->images, 1);
}

TEST(PictureRows, NeedAModelThatReadsThem) {
  const PictureConversations data;
  const RunSetup setup = setup_of(data.run() + Overrides{"model.read_images=false"});
  EXPECT_THAT([&] { rows_of(setup); },
              ThrowsMessage<ConfigError>(HasSubstr("and the model reads none")));
}

TEST(PictureRows, NeedTheSettingsOfTheModelsProcessor) {
  const PictureConversations data;
  const auto file = data.model() / "preprocessor_config.json";
  write_file_atomically(file, R"({"image_processor_type": "CLIPImageProcessor"})");
  EXPECT_THAT([&] { rows_of(setup_of(data.run())); },
              ThrowsMessage<ConfigError>(HasSubstr("pictures of 3 channels and 224 pixels")));
  std::filesystem::remove(file);
  EXPECT_THAT([&] { rows_of(setup_of(data.run())); },
              ThrowsMessage<ConfigError>(HasSubstr("expected preprocessor_config.json")));
}

TEST(PictureRows, OfAnotherModelAreRefused) {
  const PictureConversations data("noise.png", 3);
  EXPECT_THAT([&] { rows_of(setup_of(data.run())); },
              ThrowsMessage<ConfigError>(HasSubstr("has 3 tokens of id 5 for a picture, and the "
                                                   "model 4 of id 5")));
}

}  // namespace
}  // namespace viaduct
