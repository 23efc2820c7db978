#pragma once
// The kernels of few_rows.h, compiled per instruction set.

#include <string.h>

#include "ops/cpu/gemm/few_rows.h"
#include "ops/cpu/tiles/tile_arithmetic.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

// Bytes between the position read in a row or strip and the position prefetched: what memory
// delivers during the latency of a request. Into the L2 cache.
constexpr int64_t kAheadInRows = 512, kAheadInTiles = 4096;
constexpr int64_t kLine = 64;

/// Calls f(begin, end) for the steps of each sum, in the order in which sums are added up.
template <class F>
inline void for_each_sum(int64_t steps, int64_t visit, F&& f) {
  if (steps == 0) f(int64_t{0}, int64_t{0});
  for (int64_t first = 0; first < steps; first += visit) {
    const int64_t last = first + visit < steps ? first + visit : steps;
    const int64_t sums = (last - first + kSumSteps - 1) / kSumSteps;
    const int64_t each = (last - first + sums - 1) / sums;
    for (int64_t begin = first; begin < last; begin += each)
      f(begin, begin + each < last ? begin + each : last);
  }
}

/// Adds a sum to C; the first one overwrites it.
template <int kRows, int kVectors>
inline void add_to_c(const Vec (&sums)[kRows][kVectors], float* c, int64_t stride, bool first) {
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      float* const to = c + i * stride + j * kLanes;
      store(to, first ? sums[i][j] : add(load(to), sums[i][j]));
    }
  }
}

/// kLanes rows of B in memory, one for each column of the product: squares of kLanes units each
/// way.
template <class Arithmetic, class T>
struct SquareRows {
  using Element = typename Arithmetic::Element;
  static constexpr int64_t kDepth = kLanes * 4 / static_cast<int64_t>(sizeof(Element));

  const T* from;
  int64_t stride, rows, depth;  // rows: the existing ones of kLanes

  /// From contracted element k on: units of the columns.
  void load_square(int64_t k, Units (&square)[kLanes]) const {
    if (rows == kLanes && k + kDepth <= depth) {
      prefetch(k);
      load_from(from + k, stride, square);
    } else {
      // No reads beyond the end of the matrix.
      const int64_t count = depth - k < kDepth ? depth - k : kDepth;
      load_edge(k, count, square);
    }
    transpose(square);
  }

 private:
  static void load_from(const T* rows, int64_t stride, Units (&square)[kLanes]) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      if constexpr (sizeof(Element) == sizeof(T)) {
        square[i] = load_units(rows + i * stride);
      } else {
        square[i] = as_units(load(rows + i * stride));
      }
    }
  }
  /// `count` elements of the existing rows; zeros elsewhere.
  void load_edge(int64_t k, int64_t count, Units (&square)[kLanes]) const {
    if constexpr (sizeof(Element) == sizeof(float)) {
      for (int i = 0; i < kLanes; ++i) {
        const bool exists = i < rows && count > 0;
        square[i] = as_units(exists ? load(from + i * stride + k, first(count)) : zero());
      }
    } else {
      alignas(64) T edge[kLanes * kDepth];
      memset(edge, 0, sizeof edge);
      for (int64_t i = 0; i < rows && count > 0; ++i)
        memcpy(edge + i * kDepth, from + i * stride + k, static_cast<size_t>(count) * sizeof(T));
      load_from(edge, kDepth, square);
    }
  }
  /// A cache line of each row, and at the end of the rows a line of the next rows.
  void prefetch(int64_t k) const {
    constexpr int64_t kLineElements = kLine / static_cast<int64_t>(sizeof(T));
    if (k % kLineElements != 0) return;
    const int64_t ahead = k + kAheadInRows / static_cast<int64_t>(sizeof(T));
    const T* line = ahead < depth ? from + ahead : from + kLanes * stride + (ahead - depth);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) __builtin_prefetch(line + i * stride, 0, 2);
  }
};

/// kRows × kLanes of C.
template <class Arithmetic, class T, int kRows>
void square_rows_block(const FewRowsProductOf<typename Arithmetic::Element>& p,
                       const SquareRows<Arithmetic, T>& b, int64_t first_row, float* c) {
  using Element = typename Arithmetic::Element;
  constexpr int64_t kSquare = SquareRows<Arithmetic, T>::kDepth;
  const int64_t a_stride = few_rows_stride<Element>(p.depth);
  const Element* const a = p.a + first_row * a_stride;
  for_each_sum(tile_steps<Element>(p.depth), p.visit, [&](int64_t begin, int64_t end) {
    Vec sums[kRows][1];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) sums[i][0] = zero();
    for (int64_t k = begin * kStepDepth<Element>; k < end * kStepDepth<Element>; k += kSquare) {
      Units square[kLanes];
      b.load_square(k, square);
#pragma GCC unroll 16
      for (int unit = 0; unit < kLanes; ++unit) {
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i) {
          const char* const from = reinterpret_cast<const char*>(a + i * a_stride + k) + unit * 4;
          sums[i][0] = Arithmetic::add(sums[i][0], spread_unit(from), square[unit]);
        }
      }
    }
    add_to_c<kRows, 1>(sums, c, p.c_stride, begin == 0 && !p.accumulate);
  });
}

template <class Arithmetic, class T>
void product_of_rows(const FewRowsProductOf<typename Arithmetic::Element>& p) {
  for (int64_t column = 0; column < p.columns; column += kLanes) {
    const int64_t rows = p.columns - column < kLanes ? p.columns - column : kLanes;
    const SquareRows<Arithmetic, T> b{static_cast<const T*>(p.b) + column * p.b_stride, p.b_stride,
                                      rows, p.depth};
    float* const c = p.c + column;
    switch (few_rows_computed(p.rows)) {
      case 1:
        square_rows_block<Arithmetic, T, 1>(p, b, 0, c);
        break;
      case 2:
        square_rows_block<Arithmetic, T, 2>(p, b, 0, c);
        break;
      case 4:
        square_rows_block<Arithmetic, T, 4>(p, b, 0, c);
        break;
      default:
        if constexpr (kLanes == 16) {
          square_rows_block<Arithmetic, T, 8>(p, b, 0, c);
        } else {  // half of the registers
          square_rows_block<Arithmetic, T, 4>(p, b, 0, c);
          square_rows_block<Arithmetic, T, 4>(p, b, 4, c + 4 * p.c_stride);
        }
    }
  }
}

template <class T>
void copy_rows_of(const void* from, int64_t stride, int64_t rows, int64_t depth, float* to) {
  const int64_t to_stride = few_rows_stride<float>(depth);
  for (int64_t i = 0; i < few_rows_computed(rows); ++i) {
    const T* row = static_cast<const T*>(from) + i * stride;
    for (int64_t k = 0; k < to_stride; k += kLanes) {
      const int64_t left = i < rows ? depth - k : 0;
      Vec v = zero();
      if (left >= kLanes) {
        v = load(row + k);
      } else if (left > 0) {
        v = load(row + k, first(left));
      }
      store(to + i * to_stride + k, v);
    }
  }
}

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
