#pragma once
// Philox4x32-10 on the device: the numbers of base/philox.h, bit for bit.

#include "ops/cuda/kernels/kernel.h"

namespace viaduct::cuda {

struct Words {
  uint32_t w0, w1, w2, w3;
  __device__ uint32_t operator[](int i) const {
    return i == 0 ? w0 : i == 1 ? w1 : i == 2 ? w2 : w3;
  }
};

__device__ inline Words philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  Words c{static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
          static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t even = uint64_t{0xD2511F53u} * c.w0, odd = uint64_t{0xCD9E8D57u} * c.w2;
    c = {static_cast<uint32_t>(odd >> 32) ^ c.w1 ^ k0, static_cast<uint32_t>(odd),
         static_cast<uint32_t>(even >> 32) ^ c.w3 ^ k1, static_cast<uint32_t>(even)};
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return c;
}

/// Uniform in (0, 1).
__device__ inline float uniform_open_of(uint32_t word) {
  return (static_cast<float>(word >> 9) + 0.5f) * 0x1p-23f;
}

}  // namespace viaduct::cuda
