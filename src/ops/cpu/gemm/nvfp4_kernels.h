#pragma once
// Kernels of NVFP4 operands (tensor/nvfp4.h) per instruction set, row by row. Rows of codes hold
// two elements in a byte and begin at even columns.

#include <cstdint>

#include "hardware/cpu_isa.h"
#include "ops/cpu/kernel_sets.h"
#include "tensor/dtype.h"

namespace viaduct::cpu {

/// Columns of blocks, and of rows that are encoded, at most: 16 rows of FP32 take 16 KB.
inline constexpr int64_t kNvfp4Columns = 256;
/// Elements of a buffer for the random bits of this many columns.
inline constexpr int64_t kNvfp4Random = kNvfp4Columns + 2 * 128;

/// Rows that are processed together: those of a group, or of a rotation.
inline constexpr int64_t kNvfp4Rows = 16;
/// Groups of 16 columns of a row of a block.
inline constexpr int64_t kNvfp4RowGroups = kNvfp4Columns / 16;
/// Groups of a block, at most: one for each 16 elements.
inline constexpr int64_t kNvfp4BlockGroups = kNvfp4Rows * kNvfp4RowGroups;

struct Nvfp4Kernels {
  /// A block: 16 rows of `count` columns, kNvfp4Columns apart, as FP32. Its first `rows` are those
  /// at `from`, `stride` bytes apart, the others are zeros. `rotated`: rotated over its rows
  /// (tensor/hadamard.h), signs first, then four rounds of sums and differences of rows that are 1,
  /// 2, 4 and 8 apart.
  void (*load)(const void* from, int64_t stride, DType dtype, int64_t rows, int64_t count,
               bool rotated, float* to);
  /// The largest bits of the magnitudes of such a rotated block.
  int32_t (*rotated_magnitude)(const void* from, int64_t stride, DType dtype, int64_t rows,
                               int64_t count);
  /// most[c] = the largest bits of |column c| of a block's `rows`.
  void (*column_magnitudes)(const float* block, int64_t rows, int64_t count, int32_t* most);
  /// most[r · kNvfp4RowGroups + g] = the largest bits of the g-th 16 columns of row r; columns
  /// beyond `count` count as zeros.
  void (*line_magnitudes)(const float* block, int64_t rows, int64_t count, int32_t* most);
  /// codes[g] = the E4M3 scale of a group whose largest magnitude has the bits most[g]; divisors[g]
  /// = the scale of its elements, infinity if it is 0.
  void (*make_scales)(const int32_t* most, int64_t count, float matrix_scale, uint8_t* codes,
                      float* divisors);
  /// to = the codes of from[c] / divisors[c / width]: to nearest even, or stochastic with random[c]
  /// if `random` is not null. `count` is even, `width` 1 or 16.
  void (*encode)(const float* from, const float* divisors, int64_t width, const uint16_t* random,
                 int64_t count, uint8_t* to);
  /// The random bits of features [first, first + count) of a token (ops/stochastic_rounding.h);
  /// `first` is a multiple of 8. Writes up to 127 elements more.
  void (*draw)(uint64_t key, uint64_t token, uint64_t first, int64_t count, uint16_t* to);
  /// to[g] = the value of the E4M3 code g.
  void (*read_scales)(const uint8_t* codes, int64_t count, float* to);
  /// to[c] = the value of code c times scales[c / width], exactly. `count` is even, `width` 1 or
  /// 16.
  void (*widen)(const uint8_t* codes, const float* scales, int64_t width, int64_t count,
                bfloat16* to);
};

VIADUCT_KERNELS_FUNCTION(Nvfp4Kernels, nvfp4_kernels)

/// The kernels that machines of `isa` run.
inline const Nvfp4Kernels& nvfp4_kernels(CpuIsa isa) {
  return isa == CpuIsa::portable ? portable::nvfp4_kernels()
         : isa == CpuIsa::avx2   ? avx2::nvfp4_kernels()
                                 : avx512::nvfp4_kernels();
}

}  // namespace viaduct::cpu
