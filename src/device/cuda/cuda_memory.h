#pragma once
// A GPU's memory outside of a plan: blocks that the device got from the runtime, in use or free.
// Freed memory is reused at once: it is freed and used in the order of compute.

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

namespace viaduct {

class CudaMemory {
 public:
  CudaMemory() = default;
  ~CudaMemory();
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  struct Taken {
    void* data = nullptr;  // null: no memory is left
    int64_t reserved = 0;  // bytes more, or less, from the runtime than before
    int64_t requests = 0;  // of the runtime
  };
  /// At least `bytes`, aligned to 256 bytes. If the runtime has none, free blocks of other sizes
  /// are returned to it first.
  Taken take(int64_t bytes);
  void give(void* data, int64_t bytes);
  /// Whether `take(bytes)` has a free block for it.
  bool has_free(int64_t bytes) const;
  /// Whether `data` is one of its blocks.
  bool owns(void* data) const { return blocks_.contains(data); }
  /// Returns the free blocks to the runtime; the result is their bytes. Waits for the GPU.
  int64_t release_free();

 private:
  std::map<int64_t, std::vector<void*>> free_;  // by size
  std::unordered_map<void*, int64_t> blocks_;   // all, with their sizes
};

}  // namespace viaduct
