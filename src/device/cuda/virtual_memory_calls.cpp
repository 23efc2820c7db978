#include "device/cuda/virtual_memory_calls.h"

#include "device/cuda/driver_call.h"

namespace viaduct {
namespace {

/// The version of CUDA whose calls these are.
constexpr unsigned kVersion = 12000;

template <class Call>
bool find(Call& call, const char* name) {
  return find_driver_call(call, name, kVersion);
}

CUmemAccessDesc access_of(int ordinal) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = ordinal;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

}  // namespace

VirtualMemoryCalls::VirtualMemoryCalls(int ordinal, bool peer_access, std::string& missing) {
  decltype(&cuDeviceGetAttribute) attribute = nullptr;
  if (!find(attribute, "cuDeviceGetAttribute") ||
      !find(granularity_, "cuMemGetAllocationGranularity") ||
      !find(address_reserve_, "cuMemAddressReserve") || !find(address_free_, "cuMemAddressFree") ||
      !find(create_, "cuMemCreate") || !find(release_, "cuMemRelease") || !find(map_, "cuMemMap") ||
      !find(unmap_, "cuMemUnmap") || !find(set_access_, "cuMemSetAccess")) {
    missing = "the driver has no calls for virtual memory";
    return;
  }
  int supported = 0;
  if (attribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, ordinal) !=
          CUDA_SUCCESS ||
      supported == 0) {
    missing = "the GPU does not support virtual memory";
    return;
  }
  properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties_.location.id = ordinal;
  size_t granule = 0;
  if (granularity_(&granule, &properties_, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) != CUDA_SUCCESS ||
      granule == 0) {
    missing = "the driver does not say the size of its pages";
    return;
  }
  granule_ = static_cast<int64_t>(granule);
  // NCCL lets GPUs of one process read and write each other's tensors.
  access_.push_back(access_of(ordinal));
  if (!peer_access) return;
  int count = 0;
  check_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  for (int peer = 0; peer < count; ++peer) {
    int can = 0;
    if (peer == ordinal) continue;
    check_cuda(cudaDeviceCanAccessPeer(&can, peer, ordinal), "cudaDeviceCanAccessPeer");
    if (can != 0) access_.push_back(access_of(peer));
  }
}

CUdeviceptr VirtualMemoryCalls::reserve(int64_t bytes) const {
  CUdeviceptr at = 0;
  return address_reserve_(&at, size_of(bytes), 0, 0, 0) == CUDA_SUCCESS ? at : 0;
}

bool VirtualMemoryCalls::map(CUdeviceptr at) const {
  CUmemGenericAllocationHandle memory{};
  const CUresult created = create_(&memory, size_of(granule_), &properties_, 0);
  if (created == CUDA_ERROR_OUT_OF_MEMORY) return false;
  check_driver(created, "cuMemCreate");
  const CUresult mapped = map_(at, size_of(granule_), 0, memory, 0);
  // The mapping keeps the memory.
  check_driver(release_(memory), "cuMemRelease");
  check_driver(mapped, "cuMemMap");
  return true;
}

void VirtualMemoryCalls::allow(CUdeviceptr at, int64_t bytes) const {
  check_driver(set_access_(at, size_of(bytes), access_.data(), access_.size()), "cuMemSetAccess");
}

void VirtualMemoryCalls::unmap(CUdeviceptr at) const {
  check_driver(unmap_(at, size_of(granule_)), "cuMemUnmap");
}

}  // namespace viaduct
