#include "device/cuda/cuda_memory.h"

#include "device/cuda/cuda_check.h"
#include "device/size_class.h"

namespace viaduct {
namespace {

constexpr int64_t kAlignment = 256, kPage = 2 << 20;

}  // namespace

CudaMemory::~CudaMemory() {
  for (const auto& [data, bytes] : blocks_) cudaFree(data);
}

UnplannedMemory::Taken CudaMemory::take(int64_t bytes) {
  const int64_t size = size_class(bytes, kAlignment, kPage);
  Taken taken;
  std::vector<void*>& blocks = free_[size];
  if (!blocks.empty()) {
    taken.data = blocks.back();
    blocks.pop_back();
    return taken;
  }
  cudaError_t error = cudaMalloc(&taken.data, static_cast<size_t>(size));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    taken.reserved -= release_free();
    error = cudaMalloc(&taken.data, static_cast<size_t>(size));
  }
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    taken.data = nullptr;
    return taken;
  }
  check_cuda(error, "cudaMalloc");
  blocks_.emplace(taken.data, size);
  taken.reserved += size;
  taken.requests = 1;
  return taken;
}

void CudaMemory::give(void* data, int64_t bytes) {
  free_[size_class(bytes, kAlignment, kPage)].push_back(data);
}

bool CudaMemory::has_free(int64_t bytes) const {
  const auto found = free_.find(size_class(bytes, kAlignment, kPage));
  return found != free_.end() && !found->second.empty();
}

int64_t CudaMemory::release_free() {
  int64_t released = 0;
  for (auto& [size, blocks] : free_) {
    for (void* data : blocks) {
      check_cuda(cudaFree(data), "cudaFree");
      blocks_.erase(data);
      released += size;
    }
    blocks.clear();
  }
  return released;
}

}  // namespace viaduct
