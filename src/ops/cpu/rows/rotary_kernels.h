#pragma once
// Types of the rotary kernels of an instruction set.

#include "ops/cpu/kernel_sets.h"
#include "ops/cpu/vector_choice.h"

namespace viaduct::cpu {

struct RotaryRows {
  RowView x;  // rows are (token, head)
  int64_t heads = 0, half = 0;
  const int32_t* positions = nullptr;
  const float* cos = nullptr;
  const float* sin = nullptr;
  bool inverse = false, interleaved = false;
};

struct RotaryKernels {
  void (*rotate)(const RotaryRows& rows, int64_t begin_token, int64_t end_token);
};

VIADUCT_KERNELS_WITH_BF16(RotaryKernels, rotary_kernels)

}  // namespace viaduct::cpu
