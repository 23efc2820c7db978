#pragma once
// Copies from global to shared memory that continue while the thread does other work
// (PTX: cp.async, sm_80 and newer). A thread waits for its own copies; a barrier of the block after
// that makes them visible to the others.

#include "ops/cuda/kernels/kernel.h"

namespace viaduct::cuda {

/// Starts the copy of 16 bytes, both addresses multiples of 16; without `there` zeros are written
/// and `from` is not read (it must still be an address). Until waited for, `to` is undefined.
__device__ inline void begin_copy(void* to, const void* from, bool there) {
#if defined(__CUDACC__)
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(address), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
#else
  ::cuda_host::emulator().begin_copy(to, from, 16, there ? 16 : 0);
#endif
}

/// The thread's copies since its last commit are a group.
__device__ inline void commit_copies() {
#if defined(__CUDACC__)
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#else
  ::cuda_host::emulator().commit_copies();
#endif
}

/// Waits for all groups of the thread except the latest `kLatest`.
template <int kLatest>
__device__ void wait_for_copies() {
#if defined(__CUDACC__)
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kLatest) : "memory");
#else
  ::cuda_host::emulator().wait_for_copies(kLatest);
#endif
}

}  // namespace viaduct::cuda
