#include "data/token_windows.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/units.h"

namespace viaduct {

TokenWindows::TokenWindows(TokenStream stream, int64_t length, int64_t stride)
    : stream_(std::move(stream)), length_(length), stride_(stride) {
  VIADUCT_CHECK(ConfigError, stream_.size() >= 2,
                "the data have {}; at least 2 are needed, one to predict and one before it",
                counted(stream_.size(), "token"));
  VIADUCT_CHECK(ConfigError, stride >= 1 && stride <= length,
                "stride: expected 1 to {} (the sequence length), found {}", length, stride);
}

int64_t TokenWindows::size() const {
  return 1 + (std::max<int64_t>(0, scored() - length_) + stride_ - 1) / stride_;
}

void TokenWindows::get(int64_t index, Sample& sample) const {
  VIADUCT_CHECK(ShapeError, index >= 0 && index < size(), "row {} of {}", index, size());
  const auto length = static_cast<size_t>(length_);
  const int64_t begin = index * stride_;
  // The tokens of the row and the one after it.
  const auto there = static_cast<size_t>(std::min(length_ + 1, stream_.size() - begin));
  std::vector<int32_t> tokens(there);
  stream_.read(begin, tokens);
  sample.tokens.assign(length, 0);
  sample.labels.assign(length, 0);
  sample.loss_mask.assign(length, 0.0f);
  std::copy_n(tokens.begin(), std::min(there, length), sample.tokens.begin());
  std::copy(tokens.begin() + 1, tokens.end(), sample.labels.begin());
  const auto scored_before = static_cast<size_t>(index == 0 ? 0 : length_ - stride_);
  for (size_t t = scored_before; t + 1 < there; ++t) sample.loss_mask[t] = 1;
  sample.position_ids.resize(length);
  std::iota(sample.position_ids.begin(), sample.position_ids.end(), 0);
  sample.cu_seqlens = {0, static_cast<int32_t>(length_)};
  sample.padding.clear();
}

}  // namespace viaduct
