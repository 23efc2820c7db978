#pragma once
// Places in one arena for allocations whose sizes and lifetimes are known: two that live at the
// same time do not overlap, and the arena is small. (Minimal is NP-hard: dynamic storage
// allocation.)

#include <cstdint>
#include <vector>

namespace viaduct {

/// Held in [begin, end), in any measure of time; begin < end.
struct Lifetime {
  int64_t bytes = 0;
  int64_t begin = 0, end = 0;
};

struct Placement {
  std::vector<int64_t> offsets;  // of each allocation, multiples of the alignment
  int64_t bytes = 0;             // of the arena
  /// The most bytes held at once, sizes rounded up to the alignment: no arena is smaller.
  int64_t lower_bound = 0;
};

/// Places one allocation after the other, each into the tightest gap that those placed before and
/// alive at the same time leave, in three orders (largest first; largest area in time and memory
/// first; oldest first); the smallest arena of the three. `alignment` is a power of two.
Placement place(const std::vector<Lifetime>& lifetimes, int64_t alignment);

}  // namespace viaduct
