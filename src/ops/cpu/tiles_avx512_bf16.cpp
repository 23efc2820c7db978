#include "ops/cpu/tile_pack.h"

namespace viaduct::cpu::avx512_bf16 {
namespace {

/// kRows × (16 · kStrips) of C. An element of A (a pair) is spread over a register and used for all
/// strips; two units of 256 bits with a latency of 6 cycles want 6 or more sums in flight.
template <int kRows, int kStrips>
void block(int64_t steps, const bfloat16* a, const bfloat16* b, int64_t b_strip, float* c,
           int64_t c_stride, bool accumulate) {
  __m512 sums[kRows][kStrips];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kStrips; ++j) {
      sums[i][j] =
          accumulate ? _mm512_loadu_ps(c + i * c_stride + j * kTileColumns) : _mm512_setzero_ps();
    }
  }
  for (int64_t step = 0; step < steps; ++step, a += kTileElements, b += kTileElements) {
#pragma GCC unroll 4
    for (int pair = 0; pair < 16; ++pair) {
      __m512bh row[kStrips];
#pragma GCC unroll 4
      for (int j = 0; j < kStrips; ++j) {
        row[j] = (__m512bh)_mm512_loadu_si512(b + j * b_strip + pair * 2 * kTileColumns);
      }
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        int both;
        __builtin_memcpy(&both, a + i * kTileDepth + 2 * pair, sizeof both);
        const auto spread = (__m512bh)_mm512_set1_epi32(both);
#pragma GCC unroll 4
        for (int j = 0; j < kStrips; ++j) {
          sums[i][j] = _mm512_dpbf16_ps(sums[i][j], spread, row[j]);
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
template <int kStrips>
void panel(const TileProduct& p, const bfloat16* b, float* c) {
  const bfloat16* a = p.a;
  for (int64_t row = 0; row < p.rows; row += kTileRows, a += p.a_strip) {
    const int64_t rows = p.rows - row;
    float* to = c + row * p.c_stride;
    if (rows <= 1) {
      block<1, kStrips>(p.steps, a, b, p.b_strip, to, p.c_stride, p.accumulate);
    } else if (rows <= 4) {
      block<4, kStrips>(p.steps, a, b, p.b_strip, to, p.c_stride, p.accumulate);
    } else {
      block<8, kStrips>(p.steps, a, b, p.b_strip, to, p.c_stride, p.accumulate);
      if (rows > 8) {
        block<8, kStrips>(p.steps, a + 8 * kTileDepth, b, p.b_strip, to + 8 * p.c_stride,
                          p.c_stride, p.accumulate);
      }
    }
  }
}

void product(const TileProduct& p) {
  int64_t column = 0;
  for (; p.columns - column > kTileColumns; column += 2 * kTileColumns) {
    panel<2>(p, p.b + column / kTileColumns * p.b_strip, p.c + column);
  }
  if (column < p.columns) {
    panel<1>(p, p.b + column / kTileColumns * p.b_strip, p.c + column);
  }
}

void nothing() {}

}  // namespace

const TileKernels& tile_kernels() {
  static constexpr TileKernels kKernels{pack<false>, pack<true>, product, nothing, nothing};
  return kKernels;
}

}  // namespace viaduct::cpu::avx512_bf16
