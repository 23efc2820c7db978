#include <immintrin.h>

#include "hardware/cpu/peak_loops.h"

namespace viaduct::cpu {
namespace {

// 10 accumulators, 4 multipliers and 2 addends fit the 16 registers; two units with a latency of 4
// cycles need 8 chains.
constexpr int kAccumulators = 10, kLanes = 8;

void run(const float* x, const float* y, float* v, int64_t iterations) {
  __m256 multiplier[FmaLoop::kMultipliers], addend[FmaLoop::kAddends], value[kAccumulators];
  for (int j = 0; j < FmaLoop::kMultipliers; ++j) multiplier[j] = _mm256_loadu_ps(x + j * kLanes);
  for (int j = 0; j < FmaLoop::kAddends; ++j) addend[j] = _mm256_loadu_ps(y + j * kLanes);
  for (int i = 0; i < kAccumulators; ++i) value[i] = _mm256_loadu_ps(v + i * kLanes);
  for (int64_t n = 0; n < iterations; ++n) {
#pragma GCC unroll 4
    for (int j = 0; j < FmaLoop::kMultipliers; ++j) {
#pragma GCC unroll 10
      for (int i = 0; i < kAccumulators; ++i) {
        value[i] = _mm256_fmadd_ps(value[i], multiplier[j], addend[j % FmaLoop::kAddends]);
      }
    }
  }
  for (int i = 0; i < kAccumulators; ++i) _mm256_storeu_ps(v + i * kLanes, value[i]);
}

}  // namespace

FmaLoop fma_loop_avx2() {
  return {kAccumulators, kLanes, run};
}

}  // namespace viaduct::cpu
