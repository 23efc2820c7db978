#pragma once
// The product of tiles.h on a file of eight tile registers, written over the registers so that
// tests run these very loops on emulated ones. `Registers` has, all static:
//
//   zero<R>()                 register R (16 × 16 FP32) = 0
//   load<R>(from, bytes)      16 rows of 64 bytes, `bytes` apart
//   stream_load<R>(…)         the same for data that are not used again soon
//   store<R>(to, bytes)
//   multiply<C, A, B>()       C += A · B, of the tiles of tiles.h

#include "ops/cpu/tiles/tiles.h"

namespace viaduct::cpu {

/// c (= or +=) a register of C. The sum of the steps is complete before it is added to C: see
/// tiles.h.
template <class Registers, int kRegister>
void finish_tile(float* c, int64_t c_stride, bool accumulate) {
  constexpr int64_t kFloatBytes = sizeof(float);
  if (!accumulate) return Registers::template store<kRegister>(c, c_stride * kFloatBytes);
  alignas(64) float sums[kTileRows * kTileColumns];
  Registers::template store<kRegister>(sums, kTileColumns * kFloatBytes);
  for (int64_t row = 0; row < kTileRows; ++row) {
    for (int64_t column = 0; column < kTileColumns; ++column)
      c[row * c_stride + column] += sums[row * kTileColumns + column];
  }
}

/// kRows × kColumns tiles of C (each 1 or 2): registers 0 to 3 hold C, 4 and 5 A, 6 and 7 B.
template <class Registers, int kRows, int kColumns>
void tile_block(const TileProduct& p, const bfloat16* a, const bfloat16* b, float* c) {
  constexpr int64_t kRowBytes = 64;  // of every tile in memory except C
  Registers::template zero<0>();
  if constexpr (kColumns > 1) Registers::template zero<1>();
  if constexpr (kRows > 1) Registers::template zero<2>();
  if constexpr (kRows * kColumns > 2) Registers::template zero<3>();
  for (int64_t step = 0; step < p.steps; ++step, a += kTileElements, b += kTileElements) {
    Registers::template stream_load<4>(a, kRowBytes);
    Registers::template load<6>(b, kRowBytes);
    Registers::template multiply<0, 4, 6>();
    if constexpr (kColumns > 1) {
      Registers::template load<7>(b + p.b_strip, kRowBytes);
      Registers::template multiply<1, 4, 7>();
    }
    if constexpr (kRows > 1) {
      Registers::template stream_load<5>(a + p.a_strip, kRowBytes);
      Registers::template multiply<2, 5, 6>();
      if constexpr (kColumns > 1) Registers::template multiply<3, 5, 7>();
    }
  }
  float* const below = c + kTileRows * p.c_stride;
  finish_tile<Registers, 0>(c, p.c_stride, p.accumulate);
  if constexpr (kColumns > 1) finish_tile<Registers, 1>(c + kTileColumns, p.c_stride, p.accumulate);
  if constexpr (kRows > 1) finish_tile<Registers, 2>(below, p.c_stride, p.accumulate);
  if constexpr (kRows * kColumns > 2)
    finish_tile<Registers, 3>(below + kTileColumns, p.c_stride, p.accumulate);
}

/// All rows of C × kColumns strips of B, two strips of A at a time.
template <class Registers, int kColumns>
void tile_panel(const TileProduct& p, const bfloat16* b, float* c) {
  const bfloat16* a = p.a;
  int64_t row = 0;
  for (; p.rows - row > kTileRows; row += 2 * kTileRows, a += 2 * p.a_strip) {
    tile_block<Registers, 2, kColumns>(p, a, b, c + row * p.c_stride);
  }
  if (row < p.rows) tile_block<Registers, 1, kColumns>(p, a, b, c + row * p.c_stride);
}

template <class Registers>
void tile_product(const TileProduct& p) {
  const bfloat16* b = p.b;
  int64_t column = 0;
  for (; p.columns - column > kTileColumns; column += 2 * kTileColumns, b += 2 * p.b_strip) {
    tile_panel<Registers, 2>(p, b, p.c + column);
  }
  if (column < p.columns) tile_panel<Registers, 1>(p, b, p.c + column);
}

}  // namespace viaduct::cpu
