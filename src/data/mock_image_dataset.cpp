#include "data/mock_image_dataset.h"

#include <algorithm>

#include "base/philox.h"

namespace viaduct {

MockImageDataset::MockImageDataset(int64_t size, int64_t vocabulary_size, uint64_t seed,
                                   const RowSettings& settings, const ImageRowSettings& images)
    : rows_(size, vocabulary_size, seed, settings),
      images_(images),
      seed_(seed),
      other_(images.other_token()) {}

void MockImageDataset::get(int64_t index, Sample& sample) const {
  rows_.get(index, sample);
  std::ranges::replace(sample.tokens, images_.token, other_);
  std::ranges::replace(sample.labels, images_.token, other_);
  sample.images = {};
  const int64_t length = sequence_length();
  if (images_.rows > length) return;
  for (int64_t t = 0; t < images_.rows; ++t) {
    sample.tokens[static_cast<size_t>(t)] = images_.token;
    // The last of them predicts the first token behind the image.
    if (t + 1 == images_.rows) continue;
    sample.labels[static_cast<size_t>(t)] = images_.token;
    sample.loss_mask[static_cast<size_t>(t)] = 0;
  }
  ImageBatch image{1, images_.channels, images_.side, images_.side, {}};
  const int64_t values = images_.channels * images_.side * images_.side;
  image.pixels.reserve(static_cast<size_t>(values) + 3);
  const uint64_t key = philox_key({seed_, static_cast<uint64_t>(index)});
  for (int64_t i = 0; i < values; i += 4) {
    for (const uint32_t word : philox4x32(key, static_cast<uint64_t>(i), 0))
      image.pixels.push_back(static_cast<float>(word) * 0x1p-31f - 1);
  }
  image.pixels.resize(static_cast<size_t>(values));
  sample.images = std::move(image);
}

}  // namespace viaduct
