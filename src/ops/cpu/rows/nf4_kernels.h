#pragma once
// Kernels of NF4 (ops/nf4.h) of an instruction set. All handle whole bytes: only the last block of
// a matrix has an odd number of elements.

#include <cstdint>

#include "ops/cpu/kernel_sets.h"
#include "tensor/dtype.h"

namespace viaduct::cpu {

struct Nf4Kernels {
  /// The codes of one block of `count` ≤ 64 values, and its absmax.
  float (*quantize)(const void* values, DType dtype, int64_t count, uint8_t* codes);
  /// out [count] = the levels of one block's codes times its absmax.
  void (*dequantize)(const uint8_t* codes, int64_t count, float absmax, void* out, DType dtype);
};

VIADUCT_KERNELS(Nf4Kernels, nf4_kernels)

}  // namespace viaduct::cpu
