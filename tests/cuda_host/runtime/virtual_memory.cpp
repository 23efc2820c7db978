// Virtual memory of the driver's double: ranges of addresses, pieces of memory of a device, and
// mappings, which can be used once access is allowed.

#include <cuda.h>
#include <sys/mman.h>

#include <cstring>

#include "cuda_host/runtime/state.h"

using cuda_host::Block;
using cuda_host::runtime;
using cuda_host::Runtime;

namespace {

/// Calls without an error of earlier work do `body`.
template <class Body>
CUresult called(Body&& body) {
  const Runtime::Call call = runtime().call();
  return call.error != cudaSuccess ? CUDA_ERROR_UNKNOWN : body();
}

char* pointer(CUdeviceptr at) {
  return reinterpret_cast<char*>(at);
}

bool whole(size_t bytes) {
  return bytes > 0 && bytes % runtime().settings.granule == 0;
}

}  // namespace

extern "C" {

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED &&
           runtime().settings.virtual_memory;
  return CUDA_SUCCESS;
}
CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  *granularity = runtime().settings.granule;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* at, size_t bytes, size_t, CUdeviceptr,
                             unsigned long long) {
  return called([&] {
    if (!whole(bytes)) return CUDA_ERROR_INVALID_VALUE;
    void* range =
        ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    runtime().ranges[static_cast<char*>(range)] = bytes;
    *at = reinterpret_cast<CUdeviceptr>(range);
    return CUDA_SUCCESS;
  });
}
/// Also after an error of earlier work, so that a test can start over.
CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes) {
  const Runtime::Call call = runtime().call();
  const auto found = runtime().ranges.find(pointer(at));
  if (found == runtime().ranges.end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  ::munmap(pointer(at), bytes);
  runtime().ranges.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long) {
  return called([&] {
    const int device = properties->location.id;
    if (!whole(bytes) || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        device >= runtime().settings.devices)
      return CUDA_ERROR_INVALID_VALUE;
    if (runtime().used(device) + bytes > runtime().settings.memory_bytes)
      return CUDA_ERROR_OUT_OF_MEMORY;
    ++runtime().counts.allocations;
    *handle = ++runtime().pieces_made;
    runtime().pieces[*handle] = {bytes, device};
    return CUDA_SUCCESS;
  });
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return called([&] {
    const auto found = runtime().pieces.find(handle);
    if (found == runtime().pieces.end()) return CUDA_ERROR_INVALID_VALUE;
    runtime().pieces.erase(found);
    return CUDA_SUCCESS;
  });
}

/// The mapping takes the memory over; a piece that is released before it was mapped is gone.
CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
  return called([&] {
    const auto found = runtime().pieces.find(handle);
    if (found == runtime().pieces.end() || offset != 0 || found->second.bytes != bytes ||
        found->second.mapped || !runtime().reserved(pointer(at), bytes))
      return CUDA_ERROR_INVALID_VALUE;
    found->second.mapped = true;
    return runtime().map(pointer(at), bytes, found->second.device) ? CUDA_SUCCESS
                                                                   : CUDA_ERROR_INVALID_VALUE;
  });
}
/// Also after an error of earlier work.
CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) {
  const Runtime::Call call = runtime().call();
  return runtime().unmap(pointer(at), bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  return called([&] {
    for (size_t i = 0; i < count; ++i)
      if (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
          access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
          access[i].location.id >= runtime().settings.devices)
        return CUDA_ERROR_INVALID_VALUE;
    const bool all = static_cast<int>(count) == runtime().settings.devices;
    if (!all && count != 1) return CUDA_ERROR_INVALID_VALUE;
    return runtime().allow(pointer(at), bytes, all) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
#define CUDA_HOST_CALL(name) \
  { #name, reinterpret_cast < void*>(name) }
  static const std::map<std::string, void*> calls{CUDA_HOST_CALL(cuDeviceGetAttribute),
                                                  CUDA_HOST_CALL(cuMemGetAllocationGranularity),
                                                  CUDA_HOST_CALL(cuMemAddressReserve),
                                                  CUDA_HOST_CALL(cuMemAddressFree),
                                                  CUDA_HOST_CALL(cuMemCreate),
                                                  CUDA_HOST_CALL(cuMemRelease),
                                                  CUDA_HOST_CALL(cuMemMap),
                                                  CUDA_HOST_CALL(cuMemUnmap),
                                                  CUDA_HOST_CALL(cuMemSetAccess),
                                                  CUDA_HOST_CALL(cuFuncGetModule),
                                                  CUDA_HOST_CALL(cuModuleGetFunctionCount),
                                                  CUDA_HOST_CALL(cuModuleEnumerateFunctions),
                                                  CUDA_HOST_CALL(cuFuncLoad)};
#undef CUDA_HOST_CALL
  const auto found = calls.find(symbol);
  *function = found == calls.end() ? nullptr : found->second;
  *result = *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return cudaSuccess;
}
}
