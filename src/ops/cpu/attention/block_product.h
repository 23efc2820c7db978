#pragma once
// A small matrix product of blocks in cache, compiled per instruction set:
//   C [M, N] (= or +=) Σ_k A(m, k) · B[k][n]
// Elements of A are read one by one and broadcast to a vector, so A may be transposed; rows of B
// and C are dense, of any length.

#include "ops/cpu/simd/simd.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// Vectors of a tile of C; with 6 rows the accumulators, a row of B and one element of A fit the
/// registers.
constexpr int kTileVectors = kLanes == 16 ? 4 : 2;
constexpr int kTileRows = 6;

/// kTransposed: A(m, k) = a[k · lda + m], else a[m · lda + k]. kPartial: the last vector is masked.
template <int kRows, int kVectors, bool kTransposed, bool kPartial>
inline void product_tile(int64_t depth, const float* a, int64_t lda, const float* b, int64_t ldb,
                         float* c, int64_t ldc, bool accumulate, Mask rest) {
  Vec sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) sums[i][j] = zero();
  }
  for (int64_t k = 0; k < depth; ++k) {
    Vec row[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      row[j] = kPartial && j == kVectors - 1 ? load(b + j * kLanes, rest) : load(b + j * kLanes);
    }
    b += ldb;
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Vec element = set1(kTransposed ? a[k * lda + i] : a[i * lda + k]);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sums[i][j] = fma(element, row[j], sums[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      float* out = c + i * ldc + j * kLanes;
      if (kPartial && j == kVectors - 1) {
        store(out, accumulate ? add(load(out, rest), sums[i][j]) : sums[i][j], rest);
      } else {
        store(out, accumulate ? add(load(out), sums[i][j]) : sums[i][j]);
      }
    }
  }
}

template <int kVectors, bool kTransposed, bool kPartial>
inline void product_panel(int64_t rows, int64_t depth, const float* a, int64_t lda, const float* b,
                          int64_t ldb, float* c, int64_t ldc, bool accumulate, Mask rest) {
  const int64_t step = kTransposed ? 1 : lda;
  int64_t m = 0;
  for (; m + kTileRows <= rows; m += kTileRows) {
    product_tile<kTileRows, kVectors, kTransposed, kPartial>(depth, a + m * step, lda, b, ldb,
                                                             c + m * ldc, ldc, accumulate, rest);
  }
  if (m + 4 <= rows) {
    product_tile<4, kVectors, kTransposed, kPartial>(depth, a + m * step, lda, b, ldb, c + m * ldc,
                                                     ldc, accumulate, rest);
    m += 4;
  }
  for (; m < rows; ++m) {
    product_tile<1, kVectors, kTransposed, kPartial>(depth, a + m * step, lda, b, ldb, c + m * ldc,
                                                     ldc, accumulate, rest);
  }
}

template <bool kTransposed>
void block_product(int64_t rows, int64_t columns, int64_t depth, const float* a, int64_t lda,
                   const float* b, int64_t ldb, float* c, int64_t ldc, bool accumulate) {
  const Mask none = first(0);
  constexpr int64_t kPanel = kTileVectors * kLanes;
  int64_t n = 0;
  for (; n + kPanel <= columns; n += kPanel) {
    product_panel<kTileVectors, kTransposed, false>(rows, depth, a, lda, b + n, ldb, c + n, ldc,
                                                    accumulate, none);
  }
  // The remaining vectors: pairs and single full vectors, then a masked one.
  if constexpr (kTileVectors > 2) {
    if (n + 2 * kLanes <= columns) {
      product_panel<2, kTransposed, false>(rows, depth, a, lda, b + n, ldb, c + n, ldc, accumulate,
                                           none);
      n += 2 * kLanes;
    }
  }
  if (n + kLanes <= columns) {
    product_panel<1, kTransposed, false>(rows, depth, a, lda, b + n, ldb, c + n, ldc, accumulate,
                                         none);
    n += kLanes;
  }
  if (n < columns) {
    product_panel<1, kTransposed, true>(rows, depth, a, lda, b + n, ldb, c + n, ldc, accumulate,
                                        first(columns - n));
  }
}

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
