#pragma once
// Memory outside of a plan as one range of addresses, which gets memory where it is used: what is
// freed joins its neighbours, so that sizes do not matter, and memory in use never moves.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "device/cuda/unplanned_memory.h"
#include "device/cuda/virtual_memory_calls.h"

namespace viaduct {

class GrowingMemory final : public UnplannedMemory {
 public:
  /// Returns when the work has ended that was given to streams so far and may use memory that was
  /// freed since. It must not wait for more: operations with other ranks may be under way, which
  /// these begin only later.
  using Wait = std::function<void()>;
  /// For the GPU `ordinal` with `gpu_bytes` of memory, which with `peer_access` the other GPUs of
  /// the process may access too. Null, with the reason in `missing`, if the GPU, its driver or its
  /// peers do not support this. Work that uses the memory has ended when it is destroyed.
  static std::unique_ptr<GrowingMemory> make(int ordinal, int64_t gpu_bytes, bool peer_access,
                                             Wait wait, std::string& missing);
  ~GrowingMemory() override;
  GrowingMemory(const GrowingMemory&) = delete;
  GrowingMemory& operator=(const GrowingMemory&) = delete;

  Taken take(int64_t bytes) override;
  void give(void* data, int64_t bytes) override;
  bool has_free(int64_t bytes) const override;
  bool owns(void* data) const override;
  int64_t release_free() override;

 private:
  struct Range {
    int64_t begin = 0, end = 0;  // from base_
  };
  GrowingMemory(const VirtualMemoryCalls& calls, CUdeviceptr base, int64_t bytes, Wait wait);

  /// The first free range of addresses of this size.
  Range find(int64_t size) const;
  /// Maps the granules of the range that have no memory. False if the GPU has none left.
  bool map(const Range& range, int64_t& mapped);
  void unmap_all();
  CUdeviceptr address_of(int64_t granule) const {
    return base_ + static_cast<CUdeviceptr>(granule * granule_);
  }

  const VirtualMemoryCalls calls_;
  const CUdeviceptr base_;
  const int64_t bytes_, granule_;  // bytes_: of addresses
  const Wait wait_;
  std::map<int64_t, int64_t> free_;            // addresses that are not in use: begin → end
  std::unordered_map<int64_t, int64_t> used_;  // begin → end
  std::set<int64_t> mapped_;                   // granules that have memory
};

}  // namespace viaduct
