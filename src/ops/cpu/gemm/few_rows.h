#pragma once
// Products of a few rows of A, as in generation: B is read once and hardly reused, so memory
// bandwidth is the limit. B is read in place, without packing: rows of a weight, which become tiles
// in registers, or BF16 tiles (tiles.h). The next data are prefetched.
//
// The order of summation is that of tiles.h, so the bits are those of products of many rows.

#include <cstdint>

#include "ops/cpu/kernel_sets.h"
#include "ops/cpu/tiles/tiles.h"

namespace viaduct::cpu {

/// Maximum number of rows: their sums, a tile of B and a unit of A fit 32 registers.
inline constexpr int64_t kFewRows = 8;

/// Rows that kernels compute for `rows`: 1, 2, 4 or 8.
inline constexpr int64_t few_rows_computed(int64_t rows) {
  return rows <= 1 ? 1 : rows <= 2 ? 2 : rows <= 4 ? 4 : kFewRows;
}
/// Elements between the rows of A: whole steps, and an odd number of cache lines, so that rows do
/// not share cache sets.
template <class Element>
inline constexpr int64_t few_rows_stride(int64_t depth) {
  return (tile_steps<Element>(depth) | 1) * kStepDepth<Element>;
}

/// c [rows, columns] (= or +=) A · B.
template <class Element>
struct FewRowsProductOf {
  int64_t rows = 0, columns = 0;  // rows ≤ kFewRows; C has room for whole tiles and for
                                  // few_rows_computed(rows) rows, all of which is overwritten
  int64_t depth = 0;              // contracted elements
  int64_t visit = 0;              // steps after which a new sum begins (gemm_tiles.h)
  const Element* a = nullptr;     // from copy_rows
  const void* b = nullptr;
  DType b_dtype = DType::f32;
  bool tiles = false;    // b: BF16 tiles of all steps, else rows of `depth` elements, one for each
                         // column of the product
  int64_t b_stride = 0;  // elements between strips, or between rows
  float* c = nullptr;
  int64_t c_stride = 0;  // elements between rows of C
  bool accumulate = false;
};

template <class Element>
struct FewRowsKernelsOf {
  /// Copies the first `rows` rows of a matrix to few_rows_computed(rows) rows of whole steps,
  /// few_rows_stride(depth) elements apart; zeros elsewhere.
  void (*copy_rows)(const void* from, DType dtype, int64_t stride, int64_t rows, int64_t depth,
                    Element* to);
  void (*product)(const FewRowsProductOf<Element>& product);
};

VIADUCT_KERNELS_FUNCTION(FewRowsKernelsOf<float>, few_rows_kernels)
namespace avx512_bf16 {
const FewRowsKernelsOf<bfloat16>& few_rows_kernels();
}

}  // namespace viaduct::cpu
