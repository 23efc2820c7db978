#pragma once
// The part of the driver's interface that the project uses, for builds with the double of this
// folder: virtual memory, and loading of code. The same sources compile with the toolkit's header
// of this name.

#include <cstddef>

#include "cuda_host/runtime/values.h"

extern "C" {

#define CUDA_HOST_NAMED(name, value) name = value,
typedef enum cudaError_enum { CUDA_HOST_DRIVER_RESULTS(CUDA_HOST_NAMED) } CUresult;
typedef enum CUdevice_attribute_enum {
  CUDA_HOST_DRIVER_ATTRIBUTES(CUDA_HOST_NAMED)
} CUdevice_attribute;
enum : int { CUDA_HOST_DRIVER_VALUES(CUDA_HOST_NAMED) };
#undef CUDA_HOST_NAMED

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef int CUmemAllocationGranularity_flags;
typedef struct CUfunc_st* CUfunction;
typedef struct CUmod_st* CUmodule;

/// The toolkit's members that the project sets.
typedef struct CUmemLocation_st {
  int type;
  int id;
} CUmemLocation;
typedef struct CUmemAllocationProp_st {
  int type;
  CUmemLocation location;
} CUmemAllocationProp;
typedef struct CUmemAccessDesc_st {
  CUmemLocation location;
  int flags;
} CUmemAccessDesc;

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device);
CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags option);
CUresult cuMemAddressReserve(CUdeviceptr* at, size_t bytes, size_t alignment, CUdeviceptr wanted,
                             unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes);
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags);
CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr at, size_t bytes);
CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc* access, size_t count);

CUresult cuFuncGetModule(CUmodule* module, CUfunction function);
CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule module);
CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned count, CUmodule module);
CUresult cuFuncLoad(CUfunction function);
}
