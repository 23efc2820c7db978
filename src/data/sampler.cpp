#include "data/sampler.h"

#include "base/error.h"

namespace viaduct {

Sampler::Sampler(int64_t source_size, AtEnd at_end) : source_size_(source_size), at_end_(at_end) {
  VIADUCT_CHECK(ConfigError, source_size > 0, "the data has no samples");
}

std::vector<RowRef> Sampler::rows(int64_t consumed, int64_t count) const {
  VIADUCT_CHECK(ShapeError, consumed >= 0 && count >= 0, "rows [{}, +{})", consumed, count);
  VIADUCT_CHECK(ConfigError, at_end_ == AtEnd::wrap || count <= source_size_ - consumed,
                "the data ends: {} samples are consumed and {} more are needed, but there are {}",
                consumed, count, source_size_);
  std::vector<RowRef> rows;
  rows.reserve(static_cast<size_t>(count));
  for (int64_t i = consumed; i < consumed + count; ++i) rows.push_back({i, i % source_size_});
  return rows;
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
