#pragma once
// Packing into the tiles of tiles.h. Both formats are made of two ways to read a tile of memory and
// one transposition: A is rows as stored, or transposed pairs; B is interleaved pairs of rows, or
// transposed rows (in units of two contracted elements). For files compiled with AVX512-BF16.

#include "ops/cpu/tiles/tile_units.h"
#include "ops/cpu/tiles/tiles.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// The first `n` ≤ 32 lanes.
inline __mmask32 first_words(int64_t n) {
  return n >= 32 ? ~__mmask32{0} : static_cast<__mmask32>((1u << n) - 1u);
}

/// 32 consecutive elements, zero where the mask is not set (not read there).
inline Units load_units(const bfloat16* from, __mmask32 mask) {
  return _mm512_maskz_loadu_epi16(mask, from);
}
inline Units load_units(const float* from, __mmask32 mask) {
  const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from);
  const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), from + 16);
  return (Units)_mm512_cvtne2ps_pbh(high, low);
}

/// Strips of a source whose rows in memory are rows of A or columns of B.
template <class T, bool kTransposed>
void pack_rows(const TileSource& source, bfloat16* to, int64_t strip) {
  const int64_t steps = tile_steps(source.depth);
  for (int64_t begin = 0; begin < source.width; begin += kTileRows, to += strip) {
    const T* from = static_cast<const T*>(source.data) + begin * source.stride;
    const int64_t rows = source.width - begin < kTileRows ? source.width - begin : kTileRows;
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t k = step * kTileDepth;
      const __mmask32 mask = first_words(source.depth - k);
      Units tile[16];
      if (rows == kTileRows) {
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) tile[i] = load_units(from + i * source.stride + k, mask);
      } else {
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) {
          tile[i] =
              i < rows ? load_units(from + i * source.stride + k, mask) : _mm512_setzero_si512();
        }
      }
      if constexpr (kTransposed) transpose(tile);
      store_tile(tile, to + step * kTileElements);
    }
  }
}

/// Pairs for 16 tiles of two strips at once, so that whole cache lines are used: rows 2 p and 2 p +
/// 1 of memory, 32 columns.
template <class T>
inline void load_pairs(const T* from, int64_t stride, int64_t depth, __mmask32 mask,
                       Units (&left)[16], Units (&right)[16]) {
  alignas(64) static constexpr int16_t kLeft[32] = {0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,
                                                    37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
                                                    11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const Units left_index = _mm512_load_si512(kLeft);
  const Units right_index = _mm512_add_epi16(left_index, _mm512_set1_epi16(16));
#pragma GCC unroll 16
  for (int p = 0; p < 16; ++p) {
    const Units even =
        2 * p < depth ? load_units(from + 2 * p * stride, mask) : _mm512_setzero_si512();
    const Units odd =
        2 * p + 1 < depth ? load_units(from + (2 * p + 1) * stride, mask) : _mm512_setzero_si512();
    left[p] = _mm512_permutex2var_epi16(even, left_index, odd);
    right[p] = _mm512_permutex2var_epi16(even, right_index, odd);
  }
}

/// Strips of a source whose rows in memory run along the contracted dim.
template <class T, bool kTransposed>
void pack_pairs(const TileSource& source, bfloat16* to, int64_t strip) {
  const int64_t steps = tile_steps(source.depth);
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t depth = source.depth - step * kTileDepth;
    const T* row = static_cast<const T*>(source.data) + step * kTileDepth * source.stride;
    bfloat16* tile = to + step * kTileElements;
    for (int64_t begin = 0; begin < source.width; begin += 2 * kTileRows, tile += 2 * strip) {
      const __mmask32 mask = first_words(source.width - begin);
      Units left[16], right[16];
      load_pairs(row + begin, source.stride, depth, mask, left, right);
      if constexpr (kTransposed) transpose(left);
      store_tile(left, tile);
      if (source.width - begin <= kTileRows) continue;
      if constexpr (kTransposed) transpose(right);
      store_tile(right, tile + strip);
    }
  }
}

template <class T, bool kB>
void pack_of(const TileSource& source, bfloat16* to, int64_t strip) {
  source.contracted_first ? pack_pairs<T, !kB>(source, to, strip)
                          : pack_rows<T, kB>(source, to, strip);
}

/// kB: strips of B, else of A.
template <bool kB>
void pack(const TileSource& source, bfloat16* to, int64_t strip) {
  source.dtype == DType::f32 ? pack_of<float, kB>(source, to, strip)
                             : pack_of<bfloat16, kB>(source, to, strip);
}

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
