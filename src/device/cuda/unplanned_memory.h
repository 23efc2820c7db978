#pragma once
// A GPU's memory outside of a plan. Freed memory is reused at once: it is freed and used in the
// order of compute.

#include <cstdint>

namespace viaduct {

class UnplannedMemory {
 public:
  virtual ~UnplannedMemory() = default;

  struct Taken {
    void* data = nullptr;  // null: no memory is left
    int64_t reserved = 0;  // bytes more, or less, from the system than before
    int64_t requests = 0;  // of the system
  };
  /// At least `bytes`, aligned to 256 bytes. If the system has no more, memory that is free here is
  /// returned to it first.
  virtual Taken take(int64_t bytes) = 0;
  virtual void give(void* data, int64_t bytes) = 0;
  /// Whether `take(bytes)` asks the system for nothing.
  virtual bool has_free(int64_t bytes) const = 0;
  /// Whether `data` is memory that it gave out.
  virtual bool owns(void* data) const = 0;
  /// Returns what is free to the system; the result is its bytes. Waits for the GPU.
  virtual int64_t release_free() = 0;
};

}  // namespace viaduct
