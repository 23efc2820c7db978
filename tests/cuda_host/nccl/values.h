#pragma once
// Names and values of NCCL that the project uses; check_values.cpp compares them with the library's
// header.

#define NCCL_DOUBLE_RESULTS(V) \
  V(ncclSuccess, 0)            \
  V(ncclUnhandledCudaError, 1) \
  V(ncclSystemError, 2)        \
  V(ncclInternalError, 3)      \
  V(ncclInvalidArgument, 4)    \
  V(ncclInvalidUsage, 5)       \
  V(ncclRemoteError, 6)        \
  V(ncclInProgress, 7)

#define NCCL_DOUBLE_TYPES(V) \
  V(ncclUint8, 1)            \
  V(ncclInt64, 4)            \
  V(ncclFloat16, 6)          \
  V(ncclFloat32, 7)          \
  V(ncclFloat64, 8)          \
  V(ncclBfloat16, 9)

#define NCCL_DOUBLE_OPERATIONS(V) \
  V(ncclSum, 0)                   \
  V(ncclMax, 2)                   \
  V(ncclAvg, 4)

#define NCCL_DOUBLE_CONSTANTS(V) \
  V(NCCL_UNIQUE_ID_BYTES, 128)   \
  V(NCCL_WIN_COLL_SYMMETRIC, 1)  \
  V(NCCL_CTA_POLICY_ZERO, 2)     \
  V(NCCL_CONFIG_UNDEF_INT, (-2147483647 - 1))
