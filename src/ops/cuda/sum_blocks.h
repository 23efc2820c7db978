#pragma once
// How many elements of a reproducible sum a block of a GPU adds up. Any number gives the same bits.

#include <algorithm>
#include <cstdint>

namespace viaduct::cuda {

/// For `elements` in all runs of a launch. A block's sum of pieces fits into 64 bits up to 2^23
/// elements.
inline int64_t elements_per_sum_block(int64_t elements) {
  constexpr int64_t kFewest = 1 << 16, kMost = 1 << 22, kBlocks = 1024;
  return std::clamp((elements / kBlocks + kFewest) / kFewest * kFewest, kFewest, kMost);
}

/// Blocks of a run.
inline int64_t sum_blocks_of(int64_t elements, int64_t elements_per_block) {
  return (elements + elements_per_block - 1) / elements_per_block;
}

}  // namespace viaduct::cuda
