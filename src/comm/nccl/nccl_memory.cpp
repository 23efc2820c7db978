#include "comm/nccl/nccl_memory.h"

#include "base/error.h"
#include "comm/nccl/nccl_calls.h"
#include "device/cuda/cuda_check.h"

namespace viaduct {
namespace {

constexpr int kOldestVersion = 22700;

void* take(int64_t bytes) {
  const NcclCalls& nccl = nccl_calls();
  void* data = nullptr;
  const ncclResult_t result = nccl.ncclMemAlloc(&data, static_cast<size_t>(bytes));
  if (result == ncclSuccess) return data;
  // NCCL does not say whether memory is what was missing.
  size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  if (free < static_cast<size_t>(bytes)) return nullptr;
  fail<DeviceError>("ncclMemAlloc of {} bytes: NCCL: {}: {}", bytes,
                    nccl.ncclGetErrorString(result), nccl.ncclGetLastError(nullptr));
}

void give(void* data) {
  static_cast<void>(nccl_calls().ncclMemFree(data));
}

}  // namespace

bool nccl_has_symmetric_memory() {
  const NcclCalls& nccl = nccl_calls();
  int version = 0;
  nccl.ncclGetVersion(&version);
  return version >= kOldestVersion && nccl.ncclMemAlloc != nullptr && nccl.ncclMemFree != nullptr &&
         nccl.ncclCommWindowRegister != nullptr && nccl.ncclCommWindowDeregister != nullptr;
}

PlanMemorySource nccl_plan_memory() {
  const NcclCalls& nccl = nccl_calls();
  VIADUCT_CHECK(
      DeviceError, nccl.ncclMemAlloc != nullptr && nccl.ncclMemFree != nullptr,
      "ddp.nccl_ub: this NCCL has no ncclMemAlloc, whose memory it registers; needed NCCL "
      "2.19 or newer, or ddp.nccl_ub = false");
  return {take, give};
}

}  // namespace viaduct
