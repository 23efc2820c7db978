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
  bool operator==(const Lifetime&) const = default;
};

struct Placement {
  std::vector<int64_t> offsets;  // of each allocation, multiples of the alignment
  int64_t bytes = 0;             // of the arena
  /// The most bytes held at once, sizes rounded up to the alignment: no arena is smaller.
  int64_t lower_bound = 0;
};

/// In the list of given places: this allocation has none yet.
inline constexpr int64_t kToBePlaced = -1;

/// Places one allocation after the other, each into the tightest gap that those placed before and
/// alive at the same time leave, in three orders (largest first; largest area in time and memory
/// first; oldest first), each repeated with those first that ended above the lower bound (squeaky
/// wheel optimization: Joslin and Clements 1999); the smallest arena of all. `alignment` is a power
/// of two. `given`: the offsets of allocations that already have a place, which do not overlap, and
/// kToBePlaced for the others; empty: all are to be placed.
Placement place(const std::vector<Lifetime>& lifetimes, int64_t alignment,
                const std::vector<int64_t>& given = {});

/// Only oldest first: allocations released in the opposite order free the end of the arena.
Placement place_oldest_first(const std::vector<Lifetime>& lifetimes, int64_t alignment);

/// The same with times as ranks of their order, from 0.
std::vector<Lifetime> with_dense_times(std::vector<Lifetime> lifetimes);

}  // namespace viaduct
