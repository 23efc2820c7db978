#pragma once
// The driver's calls for virtual memory (CUDA driver API, "Virtual Memory Management"), found at
// run time: no library of ours is linked with the driver.

#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

#include "device/cuda/cuda_check.h"

namespace viaduct {

class VirtualMemoryCalls {
 public:
  /// Of the GPU `ordinal`, for memory that it and with `peer_access` those of its peers that this
  /// process sees can access. `missing` gets the reason if the driver or the GPU has no such
  /// memory.
  VirtualMemoryCalls(int ordinal, bool peer_access, std::string& missing);

  /// Bytes of the smallest piece of memory that can be mapped.
  int64_t granule() const { return granule_; }
  /// Addresses without memory, aligned to a granule; 0: none.
  CUdeviceptr reserve(int64_t bytes) const;
  void free_addresses(CUdeviceptr at, int64_t bytes) const { address_free_(at, size_of(bytes)); }
  /// Maps new memory of one granule at `at`. False: the GPU has no more.
  bool map(CUdeviceptr at) const;
  /// Lets the GPU and its peers read and write mapped memory.
  void allow(CUdeviceptr at, int64_t bytes) const;
  /// Unmaps a granule, whose memory the GPU gets back; nothing may use it any more.
  void unmap(CUdeviceptr at) const;

 private:
  static size_t size_of(int64_t bytes) { return static_cast<size_t>(bytes); }

  decltype(&cuMemGetAllocationGranularity) granularity_ = nullptr;
  decltype(&cuMemAddressReserve) address_reserve_ = nullptr;
  decltype(&cuMemAddressFree) address_free_ = nullptr;
  decltype(&cuMemCreate) create_ = nullptr;
  decltype(&cuMemRelease) release_ = nullptr;
  decltype(&cuMemMap) map_ = nullptr;
  decltype(&cuMemUnmap) unmap_ = nullptr;
  decltype(&cuMemSetAccess) set_access_ = nullptr;
  CUmemAllocationProp properties_{};
  std::vector<CUmemAccessDesc> access_;
  int64_t granule_ = 0;
};

}  // namespace viaduct
