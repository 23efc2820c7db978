#include "data/token_stream.h"

#include <algorithm>

#include "base/error.h"

namespace viaduct {

TokenStream::TokenStream(std::shared_ptr<const IndexedDataset> dataset)
    : dataset_(std::move(dataset)), begins_{0} {
  begins_.reserve(static_cast<size_t>(dataset_->sequence_count()) + 1);
  for (int64_t i = 0; i < dataset_->sequence_count(); ++i)
    begins_.push_back(begins_.back() + dataset_->sequence_length(i));
}

void TokenStream::read(int64_t begin, std::span<int32_t> out) const {
  const auto count = static_cast<int64_t>(out.size());
  VIADUCT_CHECK(ShapeError, begin >= 0 && begin + count <= size(),
                "token stream: tokens [{}, {}) of {}", begin, begin + count, size());
  if (!dataset_) {
    std::copy_n(ids_.begin() + begin, count, out.begin());
    return;
  }
  auto sequence = std::upper_bound(begins_.begin(), begins_.end(), begin) - begins_.begin() - 1;
  for (int64_t done = 0; done < count; ++sequence) {
    const int64_t offset = begin + done - begins_[static_cast<size_t>(sequence)];
    const int64_t here =
        std::min<int64_t>(count - done, dataset_->sequence_length(sequence) - offset);
    dataset_->read(sequence, offset,
                   out.subspan(static_cast<size_t>(done), static_cast<size_t>(here)));
    done += here;
  }
  dataset_->check_read();
}

}  // namespace viaduct
