#pragma once
// The functions of NCCL that communicators use, as the library that a process found gives them.

#include <nccl.h>

#define VIADUCT_NCCL_CALLS(X) \
  X(ncclGetVersion)           \
  X(ncclGetUniqueId)          \
  X(ncclCommInitRankConfig)   \
  X(ncclCommRegister)         \
  X(ncclCommDeregister)       \
  X(ncclCommGetAsyncError)    \
  X(ncclCommAbort)            \
  X(ncclCommDestroy)          \
  X(ncclGetErrorString)       \
  X(ncclGetLastError)         \
  X(ncclGroupStart)           \
  X(ncclGroupEnd)             \
  X(ncclAllReduce)            \
  X(ncclAllGather)            \
  X(ncclReduceScatter)        \
  X(ncclBroadcast)            \
  X(ncclSend)                 \
  X(ncclRecv)
// Those of its own memory, from NCCL 2.19 on, and of symmetric memory, from 2.27 on.
#define VIADUCT_NCCL_SYMMETRIC_CALLS(X) \
  X(ncclMemAlloc)                       \
  X(ncclMemFree)                        \
  X(ncclCommWindowRegister)             \
  X(ncclCommWindowDeregister)

namespace viaduct {

struct NcclCalls {
#define VIADUCT_NCCL_MEMBER(name) decltype(&::name) name;
  VIADUCT_NCCL_CALLS(VIADUCT_NCCL_MEMBER)
  VIADUCT_NCCL_SYMMETRIC_CALLS(VIADUCT_NCCL_MEMBER)  // null in an older library
#undef VIADUCT_NCCL_MEMBER
};

/// Loads the library at the first call: the file that VIADUCT_NCCL_LIBRARY names, or libnccl.so.2
/// from the first place that has it (base/toolkit_library.h). DeviceError that says what is missing
/// and what to install.
const NcclCalls& nccl_calls();

}  // namespace viaduct
