#pragma once
// Host memory that a GPU's copies read and write while the host continues.

#include <map>
#include <vector>

#include "device/cuda/cuda_check.h"

namespace viaduct {

/// Blocks that are reused once the copies of their last use are done.
class PinnedMemory {
 public:
  struct Block {
    void* data = nullptr;
    int64_t bytes = 0;
    cudaEvent_t last = nullptr;  // after the copies of its last use
  };

  PinnedMemory() = default;
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  /// At least `bytes`. DeviceError if the system has none.
  Block take(int64_t bytes);
  /// After the last copy that uses the block was given to `stream`.
  void give(Block block, cudaStream_t stream);

 private:
  std::map<int64_t, std::vector<Block>> free_;  // by size, oldest first
};

}  // namespace viaduct
