#pragma once
// Places for operands in memory that nothing else uses yet. No CUDA header.

#include <cstdint>

namespace viaduct::cuda {

class ScratchPlaces {
 public:
  ScratchPlaces(void* begin, int64_t bytes)
      : at_(reinterpret_cast<uintptr_t>(begin)), end_(at_ + static_cast<uintptr_t>(bytes)) {}

  /// `bytes` at a multiple of `alignment`, a power of two, and of no larger one up to 256. Null if
  /// there is no room; `fits` is false from then on.
  void* take(int64_t bytes, int64_t alignment = kMost) {
    uintptr_t at = (at_ + kMost - 1) / kMost * kMost;
    if (alignment < kMost) at += static_cast<uintptr_t>(alignment);
    fits_ = fits_ && at <= end_ && end_ - at >= static_cast<uintptr_t>(bytes);
    if (!fits_) return nullptr;
    at_ = at + static_cast<uintptr_t>(bytes);
    return reinterpret_cast<void*>(at);
  }
  bool fits() const { return fits_; }

 private:
  static constexpr int64_t kMost = 256;
  uintptr_t at_, end_;
  bool fits_ = true;
};

}  // namespace viaduct::cuda
