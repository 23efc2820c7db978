#pragma once
// Places of values in a second memory. A pure function of the sequence of allocations and frees: a
// dry run finds the places of the real run.

#include <cstdint>
#include <map>

namespace viaduct {

class MemorySlots {
 public:
  /// Offset and size of a slot are multiples of this: direct I/O needs pages.
  static constexpr int64_t kAlignment = 4096;

  /// The bytes that a value of `bytes` takes.
  static int64_t rounded(int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  /// The offset of a free slot of `bytes` (> 0): the lowest gap between slots that is large enough,
  /// else after all of them.
  int64_t find(int64_t bytes) const;
  /// Takes that slot; its offset.
  int64_t take(int64_t bytes);
  /// ShapeError if no slot begins there.
  void give(int64_t offset);

  /// Bytes of the slots that are taken.
  int64_t bytes() const { return bytes_; }
  /// How far slots have reached so far: the memory that they all need.
  int64_t extent() const { return extent_; }

 private:
  std::map<int64_t, int64_t> taken_;  // sizes by offset
  int64_t bytes_ = 0, extent_ = 0;
};

}  // namespace viaduct
