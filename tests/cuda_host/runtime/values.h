#pragma once
// Names and values of the CUDA runtime that the project uses. The double's header defines its types
// by them; check_values.cpp compares them with the toolkit's.

#define CUDA_HOST_ERRORS(X)                 \
  X(cudaSuccess, 0)                         \
  X(cudaErrorInvalidValue, 1)               \
  X(cudaErrorMemoryAllocation, 2)           \
  X(cudaErrorInsufficientDriver, 35)        \
  X(cudaErrorNoDevice, 100)                 \
  X(cudaErrorInvalidDevice, 101)            \
  X(cudaErrorInvalidResourceHandle, 400)    \
  X(cudaErrorNotReady, 600)                 \
  X(cudaErrorLaunchFailure, 719)            \
  X(cudaErrorNotPermitted, 800)             \
  X(cudaErrorNotSupported, 801)             \
  X(cudaErrorStreamCaptureUnsupported, 900) \
  X(cudaErrorStreamCaptureUnjoined, 904)    \
  X(cudaErrorUnknown, 999)

#define CUDA_HOST_COPY_KINDS(X)  \
  X(cudaMemcpyHostToHost, 0)     \
  X(cudaMemcpyHostToDevice, 1)   \
  X(cudaMemcpyDeviceToHost, 2)   \
  X(cudaMemcpyDeviceToDevice, 3) \
  X(cudaMemcpyDefault, 4)

#define CUDA_HOST_CAPTURE_MODES(X)       \
  X(cudaStreamCaptureModeGlobal, 0)      \
  X(cudaStreamCaptureModeThreadLocal, 1) \
  X(cudaStreamCaptureModeRelaxed, 2)

#define CUDA_HOST_ENTRY_POINTS(X)   \
  X(cudaDriverEntryPointSuccess, 0) \
  X(cudaDriverEntryPointSymbolNotFound, 1)

#define CUDA_HOST_CAPTURE_STATUSES(X) \
  X(cudaStreamCaptureStatusNone, 0)   \
  X(cudaStreamCaptureStatusActive, 1) \
  X(cudaStreamCaptureStatusInvalidated, 2)

#define CUDA_HOST_ATTRIBUTES(X)            \
  X(cudaDevAttrMultiProcessorCount, 16)    \
  X(cudaDevAttrComputeCapabilityMajor, 75) \
  X(cudaDevAttrComputeCapabilityMinor, 76) \
  X(cudaDevAttrMaxSharedMemoryPerBlockOptin, 97)

/// Macros in the toolkit.
#define CUDA_HOST_FLAGS(X)     \
  X(cudaStreamDefault, 0)      \
  X(cudaEnableDefault, 0)      \
  X(cudaStreamNonBlocking, 1)  \
  X(cudaEventDefault, 0)       \
  X(cudaEventBlockingSync, 1)  \
  X(cudaEventDisableTiming, 2) \
  X(cudaHostAllocDefault, 0)   \
  X(cudaHostAllocPortable, 1)

// Of the driver.

#define CUDA_HOST_DRIVER_RESULTS(X) \
  X(CUDA_SUCCESS, 0)                \
  X(CUDA_ERROR_INVALID_VALUE, 1)    \
  X(CUDA_ERROR_OUT_OF_MEMORY, 2)    \
  X(CUDA_ERROR_UNKNOWN, 999)

#define CUDA_HOST_DRIVER_ATTRIBUTES(X) \
  X(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102)

/// Of several enumerations.
#define CUDA_HOST_DRIVER_VALUES(X)           \
  X(CU_MEM_LOCATION_TYPE_DEVICE, 1)          \
  X(CU_MEM_ALLOCATION_TYPE_PINNED, 1)        \
  X(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, 1) \
  X(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3)
