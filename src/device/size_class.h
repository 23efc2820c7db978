#pragma once
// Sizes of the blocks of a growable region: blocks of one class share a free list.

#include <cstdint>

namespace viaduct {

/// The smallest class of at least `bytes`. Eight classes per power of two waste at most an eighth;
/// classes are multiples of `alignment`, and of `page` from there on.
inline int64_t size_class(int64_t bytes, int64_t alignment, int64_t page) {
  const auto round_up = [](int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
  };
  int64_t step = alignment;
  while (step * 16 <= bytes) step *= 2;
  const int64_t rounded = round_up(bytes, step);
  return rounded >= page ? round_up(rounded, page) : rounded;
}

}  // namespace viaduct
