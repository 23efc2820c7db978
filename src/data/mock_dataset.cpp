#include "data/mock_dataset.h"

#include <limits>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"

namespace viaduct {

MockDataset::MockDataset(int64_t size, int64_t vocabulary_size, uint64_t seed,
                         const RowSettings& settings)
    : size_(size),
      vocabulary_size_(vocabulary_size),
      key_(philox_key({seed, hash64("data.mock")})),
      settings_(settings) {
  VIADUCT_CHECK(ConfigError,
                vocabulary_size >= 1 && vocabulary_size <= std::numeric_limits<int32_t>::max(),
                "mock data: a vocabulary of {} entries, expected 1 to {}", vocabulary_size,
                std::numeric_limits<int32_t>::max());
  VIADUCT_CHECK(ConfigError, settings.sequence_length >= 1,
                "mock data: sequence length {}, expected 1 or more", settings.sequence_length);
}

void MockDataset::get(int64_t index, Sample& sample) const {
  VIADUCT_CHECK(ShapeError, index >= 0 && index < size(), "mock data: sample {} of {}", index,
                size());
  const size_t length = static_cast<size_t>(settings_.sequence_length);
  sample.labels.resize(length + 1);
  for (size_t t = 0; t <= length; t += 4) {
    const auto bits = philox4x32(key_, t / 4, static_cast<uint64_t>(index));
    for (size_t k = 0; k < 4 && t + k <= length; ++k) {
      // The high half of a 32 × 32 bit product is uniform below the vocabulary size, up to a bias
      // of V / 2^32.
      sample.labels[t + k] =
          static_cast<int32_t>(uint64_t{bits[k]} * static_cast<uint64_t>(vocabulary_size_) >> 32);
    }
  }
  sample.tokens.assign(sample.labels.begin(), sample.labels.end() - 1);
  sample.labels.erase(sample.labels.begin());
  fill_masks_and_positions(settings_, sample);
}

}  // namespace viaduct
