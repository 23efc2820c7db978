#include "device/cuda/pinned_memory.h"

#include "device/cuda/cuda_device.h"
#include "device/size_class.h"

namespace viaduct {
namespace {

constexpr int64_t kAlignment = 256, kPage = 4096;

}  // namespace

namespace {

void* allocate(int64_t bytes) {
  void* data = nullptr;
  const cudaError_t error = cudaHostAlloc(&data, static_cast<size_t>(bytes), cudaHostAllocDefault);
  VIADUCT_CHECK(DeviceError, error == cudaSuccess,
                "cuda: the host has no {} bytes of pinned memory: {} ({})", bytes,
                cudaGetErrorString(error), cudaGetErrorName(error));
  return data;
}

}  // namespace

std::shared_ptr<void> pinned_memory(int64_t bytes) {
  return {allocate(bytes), [](void* data) { cudaFreeHost(data); }};
}

PinnedMemory::~PinnedMemory() {
  for (const auto& [bytes, blocks] : free_) {
    for (const Block& block : blocks) {
      cudaEventDestroy(block.last);
      cudaFreeHost(block.data);
    }
  }
}

PinnedMemory::Block PinnedMemory::take(int64_t bytes) {
  const int64_t size = size_class(bytes, kAlignment, kPage);
  std::vector<Block>& blocks = free_[size];
  for (auto block = blocks.begin(); block != blocks.end(); ++block) {
    const cudaError_t error = cudaEventQuery(block->last);
    if (error == cudaErrorNotReady) continue;
    check_cuda(error, "cudaEventQuery");
    const Block found = *block;
    blocks.erase(block);
    return found;
  }
  Block made{nullptr, size, nullptr};
  check_cuda(cudaEventCreateWithFlags(&made.last, cudaEventDisableTiming),
             "cudaEventCreateWithFlags");
  made.data = allocate(size);
  return made;
}

void PinnedMemory::give(Block block, cudaStream_t stream) {
  free_[block.bytes].push_back(block);
  check_cuda(cudaEventRecord(block.last, stream), "cudaEventRecord");
}

}  // namespace viaduct
