#pragma once
// The product of tiles.h on vector registers: sums of C stay in registers, a unit of A (four bytes:
// a pair of BF16, or one FP32) is broadcast to a register and multiplied with rows of B.
// `Arithmetic` has `Element` and `add(sums, unit, row)`: sums plus the products of the unit at an
// address with the units of a register's part of a row. Compiled per instruction set.

#include <algorithm>

#include "ops/cpu/tiles/tile_units.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

inline constexpr int64_t kTileBytes = 1024, kTileRowBytes = 64;

/// How sums fill the registers: enough in flight to hide the latency of a multiply-add (two per
/// cycle, each four or five cycles), besides a row of B and a unit of A. With 32 registers 8 rows ×
/// 2 strips; with 16 a strip of 16 rows as 6, 5 and 5 rows × 2 halves of a strip.
inline constexpr int kPanelStrips = kLanes == 16 ? 2 : 1;
inline constexpr int kRowVectors = kTileColumns / kLanes;  // registers per row of a tile
inline constexpr int64_t kLeastBlockRows = kLanes == 16 ? 8 : 5;

/// The data to prefetch into the L2 cache: `lines` cache lines from `first` of every step of a
/// panel.
struct NextPanel {
  const char* tiles = nullptr;  // null: nothing
  int64_t strip_bytes = 0;
  int64_t first = 0, lines = 0;
  // Not the constant itself: with it GCC 12 generates a tenth more instructions for an AVX2
  // product.
  int64_t strips = kPanelStrips;

  void prefetch() const {
    for (int64_t line = first; line < first + lines && line < strips * kTileRows; ++line) {
      __builtin_prefetch(tiles + line / kTileRows * strip_bytes + line % kTileRows * kTileRowBytes,
                         0, 2);
    }
  }
};

/// kRows × (16 · kStrips) of C.
template <class Arithmetic, int kRows, int kStrips>
void vector_block(int64_t steps, int64_t last_units, const char* a, const char* b, int64_t b_strip,
                  float* c, int64_t c_stride, bool accumulate, NextPanel next) {
  constexpr int kVectors = kStrips * kRowVectors;
  // Prefetches C while the sums are computed.
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kStrips; ++j) __builtin_prefetch(c + i * c_stride + j * kTileColumns, 1, 3);
  }
  // Equal sums of at most kSumSteps; one sum if there are no steps.
  const int64_t sums_of_all = (steps + kSumSteps - 1) / kSumSteps;
  const int64_t steps_of_sum = sums_of_all > 1 ? (steps + sums_of_all - 1) / sums_of_all : steps;
  int64_t begin = 0;
  do {
    const int64_t end = std::min(begin + steps_of_sum, steps);
    Vec sums[kRows][kVectors];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) sums[i][j] = zero();
    }
    for (int64_t step = begin; step < end; ++step, a += kTileBytes, b += kTileBytes) {
      if (next.tiles != nullptr) {
        next.prefetch();
        next.tiles += kTileBytes;
      }
      const int64_t units = step + 1 < steps ? kTileRows : last_units;
      for (int64_t four = 0; four < units; four += 4) {
#pragma GCC unroll 4
        for (int64_t unit = four; unit < four + 4; ++unit) {
          Units row[kVectors];
#pragma GCC unroll 8
          for (int j = 0; j < kVectors; ++j) {
            row[j] = load_units(b + j / kRowVectors * b_strip + unit * kTileRowBytes +
                                j % kRowVectors * static_cast<int64_t>(sizeof(Units)));
          }
#pragma GCC unroll 16
          for (int i = 0; i < kRows; ++i) {
            const Units spread = spread_unit(a + i * kTileRowBytes + unit * 4);
#pragma GCC unroll 8
            for (int j = 0; j < kVectors; ++j)
              sums[i][j] = Arithmetic::add(sums[i][j], spread, row[j]);
          }
        }
      }
    }
    accumulate |= begin > 0;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) {
        float* const to = c + i * c_stride + j * kLanes;
        store(to, accumulate ? add(load(to), sums[i][j]) : sums[i][j]);
      }
    }
    begin = end;
  } while (begin < steps);
}

/// All rows of C × kStrips strips of B.
template <class Arithmetic, int kStrips>
void vector_panel(const TileProductOf<typename Arithmetic::Element>& p, const char* b, float* c,
                  bool last) {
  const char* a = reinterpret_cast<const char*>(p.a);
  constexpr int64_t kBytes = sizeof(typename Arithmetic::Element);
  const int64_t b_strip = p.b_strip * kBytes;
  // Every block of rows prefetches its part of the next panel.
  NextPanel next{last ? nullptr : b + kStrips * b_strip, b_strip};
  next.lines = (kPanelStrips * kTileRows * kLeastBlockRows + p.rows - 1) / p.rows;
  for (int64_t row = 0; row < p.rows; row += kTileRows, a += p.a_strip * kBytes) {
    const int64_t rows = p.rows - row;
    float* to = c + row * p.c_stride;
    const auto block = [&]<int kRows>(int64_t begin) {
      vector_block<Arithmetic, kRows, kStrips>(p.steps, p.last_units, a + begin * kTileRowBytes, b,
                                               b_strip, to + begin * p.c_stride, p.c_stride,
                                               p.accumulate, next);
      next.first += next.lines;
    };
    if (rows <= 1) {
      block.template operator()<1>(0);
    } else if (rows <= 4) {
      block.template operator()<4>(0);
    } else if constexpr (kLanes == 16) {
      block.template operator()<8>(0);
      if (rows > 8) block.template operator()<8>(8);
    } else {
      block.template operator()<6>(0);
      if (rows > 6) block.template operator()<5>(6);
      if (rows > 11) block.template operator()<5>(11);
    }
  }
}

template <class Arithmetic>
void vector_product(const TileProductOf<typename Arithmetic::Element>& p) {
  const char* b = reinterpret_cast<const char*>(p.b);
  const int64_t strip = p.b_strip * static_cast<int64_t>(sizeof(typename Arithmetic::Element));
  constexpr int64_t kPanelColumns = kPanelStrips * kTileColumns;
  int64_t column = 0;
  for (; p.columns - column > kPanelColumns - kTileColumns;
       column += kPanelColumns, b += kPanelStrips * strip) {
    vector_panel<Arithmetic, kPanelStrips>(p, b, p.c + column,
                                           !p.more && p.columns - column <= kPanelColumns);
  }
  if constexpr (kPanelStrips > 1) {
    if (column < p.columns) vector_panel<Arithmetic, 1>(p, b, p.c + column, true);
  }
}

inline void nothing() {}

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
