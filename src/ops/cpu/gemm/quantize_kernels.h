#pragma once
// Kernels of quantized operands per instruction set, row by row. Elements are codes of e4m3 or
// e5m2; rows of the matrix are f32, bf16 or f16.

#include <cstdint>

#include "hardware/cpu_isa.h"
#include "ops/cpu/kernel_sets.h"
#include "tensor/dtype.h"

namespace viaduct::cpu {

/// Elements that kernels process at a time, at most.
inline constexpr int64_t kQuantizeColumns = 1024;

/// The scales of the groups of a row: that of column c is scales[c / width].
struct GroupScales {
  const float* scales = nullptr;
  /// kBf16Exponent · log2(scale), if all are powers of two from 2^-100 to 2^100; else null. Numbers
  /// that are so far from the ends of FP32 are multiplied by adding to their exponents.
  const int16_t* exponents = nullptr;
  int64_t width = 1;  // 1 or a multiple of 16
};

/// One in the exponent of BF16.
inline constexpr int kBf16Exponent = 128;

struct QuantizeKernels {
  /// most[c] = the larger of itself and the bits of |from[c]| as FP32: in this order, NaN is above
  /// infinity and infinity above all numbers.
  void (*magnitudes)(const void* from, DType dtype, int64_t count, int32_t* most);
  /// most[g] = the largest of these bits in each `width` columns, a multiple of 16; the last group
  /// may have fewer.
  void (*group_magnitudes)(const void* from, DType dtype, int64_t count, int64_t width,
                           int32_t* most);
  /// scales[g] = the power of two that operand_scale (tensor/operand_scale.h) makes of the bits
  /// most[g] for elements up to `largest`.
  void (*powers)(const int32_t* most, int64_t count, float largest, float* scales);
  /// to[c] = the code of from[c] / scale, rounded once more after the division.
  void (*encode)(const void* from, DType dtype, float scale, int64_t count, DType element,
                 uint8_t* to);
  /// The same with the scales of groups, powers of two or NaN.
  void (*encode_groups)(const void* from, DType dtype, const GroupScales& groups, int64_t count,
                        DType element, uint8_t* to);
  /// to[c] = the value of code c.
  void (*widen)(const uint8_t* codes, DType element, int64_t count, bfloat16* to);
  /// The same times its scale; rounded to nearest even (exact in the range of normal BF16 numbers
  /// where scales are powers of two).
  void (*widen_groups)(const uint8_t* codes, DType element, const GroupScales& groups,
                       int64_t count, bfloat16* to);
};

VIADUCT_KERNELS_FUNCTION(QuantizeKernels, quantize_kernels)

/// The kernels that machines of `isa` run.
inline const QuantizeKernels& quantize_kernels(CpuIsa isa) {
  return isa == CpuIsa::portable ? portable::quantize_kernels()
         : isa == CpuIsa::avx2   ? avx2::quantize_kernels()
                                 : avx512::quantize_kernels();
}

}  // namespace viaduct::cpu
