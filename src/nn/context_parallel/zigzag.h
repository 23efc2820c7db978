#pragma once
// The zigzag cut of a document over context ranks: 2 · cp equal chunks, of which rank r holds r and
// 2 cp − 1 − r, one after the other. Under a causal mask every rank then computes the same number
// of (query, key) pairs.

#include <cstdint>

namespace viaduct {

/// The chunk that `rank` holds as its first (`half` 0) or second (`half` 1) half.
inline int64_t zigzag_chunk(int64_t ranks, int64_t rank, int half) {
  return half == 0 ? rank : 2 * ranks - 1 - rank;
}

/// The length of a document must be a multiple of this. One rank takes any length.
inline int64_t zigzag_multiple(int64_t ranks) {
  return ranks == 1 ? 1 : 2 * ranks;
}

}  // namespace viaduct
