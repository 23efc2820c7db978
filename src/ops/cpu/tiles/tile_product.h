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

/// The strips of B that are multiplied next. Each step of a product prefetches some of their cache
/// lines into the L2 cache, in the order in which they will be read.
class NextStrips {
 public:
  NextStrips() = default;
  /// One strip, or two that are `distance` elements apart (0: one), of `steps` tiles; while blocks
  /// of two tiles of all `rows` are multiplied.
  NextStrips(const bfloat16* first, int64_t distance, int64_t steps, int64_t rows)
      : line_(reinterpret_cast<const char*>(first)),
        end_(reinterpret_cast<const char*>(first + steps * kTileElements)),
        second_(reinterpret_cast<const char*>(first + distance)) {
    const int64_t blocks = (rows + 2 * kTileRows - 1) / (2 * kTileRows);
    lines_ = ((distance > 0 ? 2 : 1) * kTileRows + blocks - 1) / blocks;
  }

  void prefetch() {
    for (int64_t i = 0; i < lines_; ++i, line_ += kLineBytes) {
      if (line_ == end_) line_ = second_;
      __builtin_prefetch(line_, 0, 2);
    }
  }

 private:
  static constexpr int64_t kLineBytes = 64;  // a row of a tile
  const char *line_ = nullptr, *end_ = nullptr, *second_ = nullptr;
  int64_t lines_ = 0;  // a step
};

/// kRows × kColumns tiles of C (each 1 or 2): registers 0 to 3 hold C, 4 and 5 A, 6 and 7 B.
template <class Registers, int kRows, int kColumns>
void tile_block(const TileProduct& p, const bfloat16* a, const bfloat16* b, float* c,
                NextStrips& next) {
  constexpr int64_t kRowBytes = 64;  // of every tile in memory except C
  Registers::template zero<0>();
  if constexpr (kColumns > 1) Registers::template zero<1>();
  if constexpr (kRows > 1) Registers::template zero<2>();
  if constexpr (kRows * kColumns > 2) Registers::template zero<3>();
  for (int64_t step = 0; step < p.steps; ++step, a += kTileElements, b += kTileElements) {
    next.prefetch();
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
void tile_panel(const TileProduct& p, const bfloat16* b, float* c, bool last) {
  const bfloat16* a = p.a;
  NextStrips next;
  if (!last) next = {b + kColumns * p.b_strip, kColumns > 1 ? p.b_strip : 0, p.steps, p.rows};
  int64_t row = 0;
  for (; p.rows - row > kTileRows; row += 2 * kTileRows, a += 2 * p.a_strip) {
    tile_block<Registers, 2, kColumns>(p, a, b, c + row * p.c_stride, next);
  }
  if (row < p.rows) tile_block<Registers, 1, kColumns>(p, a, b, c + row * p.c_stride, next);
}

template <class Registers>
void tile_product(const TileProduct& p) {
  const bfloat16* b = p.b;
  int64_t column = 0;
  for (; p.columns - column > kTileColumns; column += 2 * kTileColumns, b += 2 * p.b_strip) {
    tile_panel<Registers, 2>(p, b, p.c + column, !p.more && p.columns - column <= 2 * kTileColumns);
  }
  if (column < p.columns) tile_panel<Registers, 1>(p, b, p.c + column, true);
}

}  // namespace viaduct::cpu
