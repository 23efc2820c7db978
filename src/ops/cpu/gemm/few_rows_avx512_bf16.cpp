#include "ops/cpu/gemm/few_rows_kernels.h"

namespace viaduct::cpu::avx512_bf16 {
namespace {

/// kRows × kStrips strips of BF16 tiles.
template <int kRows, int kStrips>
void tile_strips_block(const FewRowsProductOf<bfloat16>& p, const bfloat16* b, float* c) {
  const int64_t a_stride = few_rows_stride<bfloat16>(p.depth);
  for_each_sum(tile_steps(p.depth), p.visit, [&](int64_t begin, int64_t end) {
    Vec sums[kRows][kStrips];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kStrips; ++j) sums[i][j] = zero();
    }
    const auto* a = reinterpret_cast<const char*>(p.a + begin * kTileDepth);
    const auto* tiles = reinterpret_cast<const char*>(b + begin * kTileElements);
    const auto add_unit = [&](int unit) __attribute__((always_inline)) {
      Units row[kStrips];
#pragma GCC unroll 4
      for (int j = 0; j < kStrips; ++j) {
        const char* const from = tiles + j * p.b_stride * 2 + unit * kLine;
        _mm_prefetch(from + kAheadInTiles, _MM_HINT_T1);
        row[j] = load_units(from);
      }
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        const Units spread = spread_unit(a + i * a_stride * 2 + unit * 4);
#pragma GCC unroll 4
        for (int j = 0; j < kStrips; ++j) sums[i][j] = Pairs::add(sums[i][j], spread, row[j]);
      }
    };
    const int64_t full = p.depth / kTileDepth, whole = full < end ? full : end;
    for (int64_t step = begin; step < whole; ++step, a += kLine, tiles += kTileElements * 2) {
#pragma GCC unroll 4
      for (int unit = 0; unit < 16; ++unit) add_unit(unit);
    }
    // Of a tile that is not full its zeros are not read: with a factor of low rank most of it.
    const int units = whole < end ? static_cast<int>((p.depth % kTileDepth + 1) / 2) : 0;
    for (int unit = 0; unit < units; ++unit) add_unit(unit);
    add_to_c<kRows, kStrips>(sums, c, p.c_stride, begin == 0 && !p.accumulate);
  });
}

/// Strips in parallel, so that multiply-adds need not wait for each other.
template <int kRows, int kStrips>
void product_of_tiles(const FewRowsProductOf<bfloat16>& p, int64_t column = 0) {
  const auto* b = static_cast<const bfloat16*>(p.b) + column / kTileColumns * p.b_stride;
  for (; p.columns - column > (kStrips - 1) * kTileColumns;
       column += kStrips * kTileColumns, b += kStrips * p.b_stride)
    tile_strips_block<kRows, kStrips>(p, b, p.c + column);
  if constexpr (kStrips > 1) product_of_tiles<kRows, kStrips / 2>(p, column);
}

void copy_rows(const void* from, DType, int64_t stride, int64_t rows, int64_t depth, bfloat16* to) {
  const int64_t to_stride = few_rows_stride<bfloat16>(depth);
  for (int64_t i = 0; i < few_rows_computed(rows); ++i, to += to_stride) {
    const int64_t count = i < rows ? depth : 0;
    memcpy(to, static_cast<const bfloat16*>(from) + i * stride, static_cast<size_t>(count) * 2);
    memset(to + count, 0, static_cast<size_t>(to_stride - count) * 2);
  }
}

void product(const FewRowsProductOf<bfloat16>& p) {
  if (!p.tiles) return product_of_rows<Pairs, bfloat16>(p);
  switch (few_rows_computed(p.rows)) {
    case 1:
      return product_of_tiles<1, 4>(p);
    case 2:
      return product_of_tiles<2, 4>(p);
    case 4:
      return product_of_tiles<4, 4>(p);
    default:
      return product_of_tiles<8, 2>(p);
  }
}

}  // namespace

const FewRowsKernelsOf<bfloat16>& few_rows_kernels() {
  static constexpr FewRowsKernelsOf<bfloat16> kKernels{copy_rows, product};
  return kKernels;
}

}  // namespace viaduct::cpu::avx512_bf16
