#pragma once
// Memory outside of a plan as separate blocks of the runtime, in use or free.

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "device/cuda/unplanned_memory.h"

namespace viaduct {

class CudaMemory final : public UnplannedMemory {
 public:
  CudaMemory() = default;
  ~CudaMemory() override;
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  Taken take(int64_t bytes) override;
  void give(void* data, int64_t bytes) override;
  bool has_free(int64_t bytes) const override;
  bool owns(void* data) const override { return blocks_.contains(data); }
  int64_t release_free() override;

 private:
  std::map<int64_t, std::vector<void*>> free_;  // by size
  std::unordered_map<void*, int64_t> blocks_;   // all, with their sizes
};

}  // namespace viaduct
