#include <immintrin.h>

#include "hardware/cpu/peak_loops.h"

namespace viaduct::cpu {
namespace {

// 24 accumulators and 6 operands fit the 32 registers.
constexpr int kAccumulators = 24, kLanes = 16;

void run(const uint16_t* x, const uint16_t* y, float* v, int64_t iterations) {
  __m512bh multiplier[DotLoop::kMultipliers], other[DotLoop::kOthers];
  __m512 value[kAccumulators];
  for (int j = 0; j < DotLoop::kMultipliers; ++j)
    multiplier[j] = (__m512bh)_mm512_loadu_si512(x + j * 2 * kLanes);
  for (int j = 0; j < DotLoop::kOthers; ++j)
    other[j] = (__m512bh)_mm512_loadu_si512(y + j * 2 * kLanes);
  for (int i = 0; i < kAccumulators; ++i) value[i] = _mm512_loadu_ps(v + i * kLanes);
  for (int64_t n = 0; n < iterations; ++n) {
#pragma GCC unroll 4
    for (int j = 0; j < DotLoop::kMultipliers; ++j) {
#pragma GCC unroll 24
      for (int i = 0; i < kAccumulators; ++i) {
        value[i] = _mm512_dpbf16_ps(value[i], multiplier[j], other[(i + j) % DotLoop::kOthers]);
      }
    }
  }
  for (int i = 0; i < kAccumulators; ++i) _mm512_storeu_ps(v + i * kLanes, value[i]);
}

}  // namespace

DotLoop dot_loop_avx512_bf16() {
  return {kAccumulators, kLanes, run};
}

}  // namespace viaduct::cpu
