#pragma once
// Regions of a workspace, one after the other.

#include <cstdint>

namespace viaduct::cuda {

/// Pieces of `piece` that cover `size`.
inline int64_t pieces_of(int64_t size, int64_t piece) {
  return (size + piece - 1) / piece;
}
inline int64_t rounded_up(int64_t value, int64_t multiple) {
  return pieces_of(value, multiple) * multiple;
}

/// Begin of a region of `bytes` at `end`, which moves behind it. Regions begin at multiples of 256
/// bytes.
inline int64_t take_region(int64_t& end, int64_t bytes) {
  const int64_t at = end;
  end = rounded_up(end + bytes, 256);
  return at;
}

}  // namespace viaduct::cuda
