#pragma once
// Kernels of NVFP4 operands (tensor/nvfp4.h) per instruction set, row by row. Rows of codes hold
// two elements in a byte and begin at even columns.

#include <cstdint>

#include "hardware/cpu_isa.h"
#include "tensor/dtype.h"

namespace viaduct::cpu {

/// Columns that kernels process at a time, at most: 16 rows of FP32 take 16 KB.
inline constexpr int64_t kNvfp4Columns = 256;
/// Elements of a buffer for the random bits of this many columns.
inline constexpr int64_t kNvfp4Random = kNvfp4Columns + 2 * 128;

struct Nvfp4Kernels {
  /// to[c] = from[c] as FP32.
  void (*load)(const void* from, DType dtype, int64_t count, float* to);
  /// Rotates 16 rows of `count` columns, which are kNvfp4Columns apart, in place
  /// (tensor/hadamard.h): signs first, then four rounds of sums and differences of rows that are 1,
  /// 2, 4 and 8 apart.
  void (*rotate)(float* rows, int64_t count);
  /// codes[g] = the E4M3 scale of a group whose largest magnitude has the bits most[g]; divisors[g]
  /// = the scale of its elements, infinity if it is 0.
  void (*make_scales)(const int32_t* most, int64_t count, float matrix_scale, uint8_t* codes,
                      float* divisors);
  /// to = the codes of from[c] / divisors[c]: to nearest even, or stochastic with random[c] if
  /// `random` is not null. `count` is even.
  void (*encode)(const float* from, const float* divisors, const uint16_t* random, int64_t count,
                 uint8_t* to);
  /// The random bits of features [first, first + count) of a token (ops/stochastic_rounding.h);
  /// `first` is a multiple of 8. Writes up to 127 elements more.
  void (*draw)(uint64_t key, uint64_t token, uint64_t first, int64_t count, uint16_t* to);
  /// to[g] = the value of the E4M3 code g.
  void (*read_scales)(const uint8_t* codes, int64_t count, float* to);
  /// to[c] = the value of code c times scales[c], exactly. `count` is even.
  void (*widen)(const uint8_t* codes, const float* scales, int64_t count, bfloat16* to);
};

namespace portable {
const Nvfp4Kernels& nvfp4_kernels();
}
namespace avx2 {
const Nvfp4Kernels& nvfp4_kernels();
}
namespace avx512 {
const Nvfp4Kernels& nvfp4_kernels();
}

/// The kernels that machines of `isa` run.
inline const Nvfp4Kernels& nvfp4_kernels(CpuIsa isa) {
  return isa == CpuIsa::portable ? portable::nvfp4_kernels()
         : isa == CpuIsa::avx2   ? avx2::nvfp4_kernels()
                                 : avx512::nvfp4_kernels();
}

}  // namespace viaduct::cpu
