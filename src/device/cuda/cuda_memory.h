#pragma once
// A GPU's memory outside of a plan: blocks that the device has got from the runtime, in use or
// free. Freed memory is handed out again at once: it is freed and used in the order of compute.

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
    void* data = nullptr;  // null: there is no memory left
    int64_t reserved = 0;  // bytes more, or less, from the runtime than before
    int64_t requests = 0;  // of the runtime
  };
  /// At least `bytes`, aligned to 256 bytes. If the runtime has none, free blocks of other sizes go
  /// back to it first.
  Taken take(int64_t bytes);
  void give(void* data, int64_t bytes);
  /// Whether `data` is one of its blocks.
  bool owns(void* data) const { return blocks_.contains(data); }
  /// Gives the free blocks back to the runtime; returns their bytes. Waits for the GPU.
  int64_t release_free();

 private:
  std::map<int64_t, std::vector<void*>> free_;  // by size
  std::unordered_map<void*, int64_t> blocks_;   // all, with their sizes
};

}  // namespace viaduct
