#include "hardware/cpu/peak_loops.h"

namespace viaduct::cpu {
namespace {

// As with AVX2: 10 vectors of 8 floats and their operands fit the 32 registers of aarch64.
constexpr int kAccumulators = 10, kLanes = 8;

void run(const float* x, const float* y, float* v, int64_t iterations) {
  float multiplier[FmaLoop::kMultipliers][kLanes], addend[FmaLoop::kAddends][kLanes];
  float value[kAccumulators][kLanes];
  __builtin_memcpy(multiplier, x, sizeof multiplier);
  __builtin_memcpy(addend, y, sizeof addend);
  __builtin_memcpy(value, v, sizeof value);
  for (int64_t n = 0; n < iterations; ++n) {
#pragma GCC unroll 4
    for (int j = 0; j < FmaLoop::kMultipliers; ++j) {
#pragma GCC unroll 10
      for (int i = 0; i < kAccumulators; ++i) {
        for (int lane = 0; lane < kLanes; ++lane)
          value[i][lane] = __builtin_fmaf(value[i][lane], multiplier[j][lane],
                                          addend[j % FmaLoop::kAddends][lane]);
      }
    }
  }
  __builtin_memcpy(v, value, sizeof value);
}

}  // namespace

FmaLoop fma_loop_portable() {
  return {kAccumulators, kLanes, run};
}

}  // namespace viaduct::cpu
