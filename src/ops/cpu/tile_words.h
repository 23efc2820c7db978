#pragma once
// A tile in 16 registers of 64 bytes: units of four bytes, pairs of BF16 or single FP32. For files
// compiled with AVX-512.

#include "ops/cpu/simd.h"
#include "ops/cpu/tiles.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// A row of a tile: 16 units.
using Words = __m512i;

inline void store_tile(const Words (&rows)[16], void* to) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_storeu_si512(static_cast<char*>(to) + 64 * i, rows[i]);
}

/// 16 × 16 pairs: rows become columns.
inline void transpose(Words (&v)[16]) {
  Words t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 4; ++i) {
    v[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    v[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    v[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    v[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  // v[4 i + j], lane l of 4: column 4 l + j of rows 4 i … 4 i + 3. Lanes are a 4 × 4 transposition.
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    t[j] = _mm512_shuffle_i32x4(v[j], v[4 + j], 0x88);
    t[4 + j] = _mm512_shuffle_i32x4(v[j], v[4 + j], 0xdd);
    t[8 + j] = _mm512_shuffle_i32x4(v[8 + j], v[12 + j], 0x88);
    t[12 + j] = _mm512_shuffle_i32x4(v[8 + j], v[12 + j], 0xdd);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    v[j] = _mm512_shuffle_i32x4(t[j], t[8 + j], 0x88);
    v[8 + j] = _mm512_shuffle_i32x4(t[j], t[8 + j], 0xdd);
    v[4 + j] = _mm512_shuffle_i32x4(t[4 + j], t[12 + j], 0x88);
    v[12 + j] = _mm512_shuffle_i32x4(t[4 + j], t[12 + j], 0xdd);
  }
}

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
