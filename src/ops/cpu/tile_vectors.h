#pragma once
// The product of tiles.h on vector registers: sums of C stay in registers, a unit of A (four bytes:
// a pair of BF16, or one FP32) is spread over a register and multiplied with rows of B.
// `Arithmetic` has `Element` and `add(sums, spread, row)`. For files compiled with AVX-512.

#include "ops/cpu/tile_words.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// What is read next, so that it is in the second-level cache by then: `lines` cache lines from
/// `first` of every step of two strips.
struct NextPanel {
  const char* tiles = nullptr;  // null: nothing
  int64_t strip_bytes = 0;
  int64_t first = 0, lines = 0;

  void prefetch() const {
    for (int64_t line = first; line < first + lines && line < 2 * kTileRows; ++line) {
      _mm_prefetch(tiles + (line < kTileRows ? 0 : strip_bytes) + line % kTileRows * 64,
                   _MM_HINT_T1);
    }
  }
};

/// kRows × (16 · kStrips) of C; 8 × 2 sums or more in flight hide the latency of a multiply-add.
template <class Arithmetic, int kRows, int kStrips>
void vector_block(int64_t steps, const char* a, const char* b, int64_t b_strip, float* c,
                  int64_t c_stride, bool accumulate, NextPanel next) {
  constexpr int64_t kTileBytes = 1024, kRowBytes = 64;
  __m512 sums[kRows][kStrips];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kStrips; ++j) {
      sums[i][j] =
          accumulate ? _mm512_loadu_ps(c + i * c_stride + j * kTileColumns) : _mm512_setzero_ps();
    }
  }
  for (int64_t step = 0; step < steps; ++step, a += kTileBytes, b += kTileBytes) {
    if (next.tiles != nullptr) {
      next.prefetch();
      next.tiles += kTileBytes;
    }
#pragma GCC unroll 4
    for (int unit = 0; unit < 16; ++unit) {
      Words row[kStrips];
#pragma GCC unroll 4
      for (int j = 0; j < kStrips; ++j) {
        row[j] = _mm512_loadu_si512(b + j * b_strip + unit * kRowBytes);
      }
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        int element;
        __builtin_memcpy(&element, a + i * kRowBytes + unit * 4, sizeof element);
        const Words spread = _mm512_set1_epi32(element);
#pragma GCC unroll 4
        for (int j = 0; j < kStrips; ++j) {
          sums[i][j] = Arithmetic::add(sums[i][j], spread, row[j]);
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kStrips; ++j) {
      _mm512_storeu_ps(c + i * c_stride + j * kTileColumns, sums[i][j]);
    }
  }
}

/// All rows of C × kStrips strips of B.
template <class Arithmetic, int kStrips>
void vector_panel(const TileProductOf<typename Arithmetic::Element>& p, const char* b, float* c,
                  bool last) {
  const char* a = reinterpret_cast<const char*>(p.a);
  constexpr int64_t kBytes = sizeof(typename Arithmetic::Element), kHalf = 8;
  const int64_t b_strip = p.b_strip * kBytes;
  // Every eight rows fetch their share of the next panel.
  NextPanel next{last ? nullptr : b + kStrips * b_strip, b_strip};
  next.lines = (2 * kTileRows * kHalf + p.rows - 1) / p.rows;
  for (int64_t row = 0; row < p.rows; row += kTileRows, a += p.a_strip * kBytes) {
    const int64_t rows = p.rows - row;
    float* to = c + row * p.c_stride;
    const auto block = [&]<int kRows>(const char* from, float* out) {
      vector_block<Arithmetic, kRows, kStrips>(p.steps, from, b, b_strip, out, p.c_stride,
                                               p.accumulate, next);
      next.first += next.lines;
    };
    if (rows <= 1) {
      block.template operator()<1>(a, to);
    } else if (rows <= 4) {
      block.template operator()<4>(a, to);
    } else {
      block.template operator()<8>(a, to);
      if (rows > kHalf) block.template operator()<8>(a + kHalf * 64, to + kHalf * p.c_stride);
    }
  }
}

template <class Arithmetic>
void vector_product(const TileProductOf<typename Arithmetic::Element>& p) {
  const char* b = reinterpret_cast<const char*>(p.b);
  const int64_t strip = p.b_strip * static_cast<int64_t>(sizeof(typename Arithmetic::Element));
  int64_t column = 0;
  for (; p.columns - column > kTileColumns; column += 2 * kTileColumns, b += 2 * strip) {
    vector_panel<Arithmetic, 2>(p, b, p.c + column,
                                !p.more && p.columns - column <= 2 * kTileColumns);
  }
  if (column < p.columns) vector_panel<Arithmetic, 1>(p, b, p.c + column, true);
}

inline void nothing() {}

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
