#pragma once
// The workspace for sorting choices by expert on a GPU: two buffers of tokens, the counts of
// digits, and where each expert's choices begin.

#include <bit>

#include "ops/cuda/kernels/expert_order.h"

namespace viaduct::cuda {

struct ChoiceSort {
  int64_t choices, experts;

  int passes() const {
    const int bits = std::bit_width(static_cast<uint64_t>(experts));
    return (bits + kDigitBits - 1) / kDigitBits;
  }
  int64_t count_bytes() const {
    const int64_t blocks = (choices + kTokensPerBlock - 1) / kTokensPerBlock;
    return blocks * kDigits * static_cast<int64_t>(sizeof(int32_t));
  }
  int64_t workspace_bytes() const {
    return 2 * choices * static_cast<int64_t>(sizeof(TokenOfRow)) + count_bytes() +
           (experts + 1) * static_cast<int64_t>(sizeof(int32_t));
  }
  /// Of the sort and of `find_begins`.
  int launches() const { return (choices > 0 ? 2 * passes() : 0) + 1; }
};

}  // namespace viaduct::cuda
