#include "data/sampler.h"

#include <limits>
#include <mutex>
#include <numeric>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/units.h"

namespace viaduct {

struct Sampler::Epochs {
  EpochShuffle shuffle;
  int64_t rows = 0;  // of an epoch: whole global batches
  std::mutex mutex;
  int64_t epoch = -1;
  std::vector<int64_t> order;
};

Sampler::Sampler(int64_t source_size, AtEnd at_end) : source_size_(source_size), at_end_(at_end) {
  VIADUCT_CHECK(ConfigError, source_size > 0, "the data has no samples");
}

Sampler::Sampler(int64_t source_size, const EpochShuffle& shuffle)
    : source_size_(source_size), epochs_(std::make_shared<Epochs>()) {
  epochs_->shuffle = shuffle;
  epochs_->rows = source_size / shuffle.global_batch_size * shuffle.global_batch_size;
  VIADUCT_CHECK(ConfigError, epochs_->rows > 0, "the data have {}, fewer than a global batch of {}",
                counted(source_size, "sample"), shuffle.global_batch_size);
}

std::vector<RowRef> Sampler::rows(int64_t consumed, int64_t count) const {
  VIADUCT_CHECK(ShapeError, consumed >= 0 && count >= 0, "rows [{}, +{})", consumed, count);
  std::vector<RowRef> rows;
  rows.reserve(static_cast<size_t>(count));
  if (epochs_) {
    Epochs& e = *epochs_;
    const std::lock_guard lock(e.mutex);
    for (int64_t i = consumed; i < consumed + count; ++i) {
      const int64_t epoch = i / e.rows;
      if (epoch != e.epoch) {
        e.order = torch_permutation(source_size_, e.shuffle.seed + static_cast<uint64_t>(epoch));
        e.epoch = epoch;
      }
      rows.push_back({i, e.order[static_cast<size_t>(i % e.rows)]});
    }
    return rows;
  }
  VIADUCT_CHECK(ConfigError, at_end_ == AtEnd::wrap || count <= source_size_ - consumed,
                "the run needs more rows than its data have: {} are read, {} more are needed, and "
                "there are {}",
                consumed, count, source_size_);
  for (int64_t i = consumed; i < consumed + count; ++i) rows.push_back({i, i % source_size_});
  return rows;
}

std::vector<int64_t> torch_permutation(int64_t size, uint64_t seed) {
  // Its generator is MT19937 with the low 32 bits of the seed; beyond a twentieth of 2^32 elements
  // it draws 64 bits, and builds the permutation from the inside out.
  std::mt19937 generator(static_cast<uint32_t>(seed));
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto n = static_cast<uint64_t>(size);
  if (n < std::numeric_limits<uint32_t>::max() / 20) {
    for (uint64_t i = 0; i + 1 < n; ++i) std::swap(order[i], order[i + generator() % (n - i)]);
    return order;
  }
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t high = generator();
    const uint64_t z = (high << 32 | generator()) % (i + 1);
    order[i] = order[z];
    order[z] = static_cast<int64_t>(i);
  }
  return order;
}

std::vector<RowRef> micro_batch_rows(const Sampler& sampler, int64_t consumed, int64_t micro_batch,
                                     const MicroBatchPlace& place) {
  const int64_t before = (micro_batch * place.dp_size + place.dp_rank) * place.micro_batch_size;
  return sampler.rows(consumed + before, place.micro_batch_size);
}

int64_t micro_batch_count(int64_t global_batch_size, const MicroBatchPlace& place) {
  const int64_t at_once = place.micro_batch_size * place.dp_size;
  VIADUCT_CHECK(ConfigError,
                place.micro_batch_size > 0 && place.dp_size > 0 && global_batch_size > 0 &&
                    global_batch_size % at_once == 0,
                "a global batch of {} samples is not a multiple of micro-batch size {} times {} "
                "data-parallel ranks",
                global_batch_size, place.micro_batch_size, place.dp_size);
  return global_batch_size / at_once;
}

}  // namespace viaduct
