#pragma once
// Rows of a tile in registers, as units of four bytes: pairs of BF16 or single FP32. With AVX-512 a
// register is a row of 16 units, with AVX2 half of one. Compiled per instruction set.

#include "ops/cpu/simd/simd.h"
#include "ops/cpu/tiles/tiles.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

#if defined(VIADUCT_PORTABLE)

/// Half a row of a tile: 8 units.
using Units = Vec;

inline Units load_units(const void* from) {
  return load(static_cast<const float*>(from));
}
inline Units spread_unit(const void* from) {
  float unit;
  __builtin_memcpy(&unit, from, sizeof unit);
  return set1(unit);
}
inline Vec as_floats(Units words) {
  return words;
}
inline Units as_units(Vec floats) {
  return floats;
}

/// 8 × 8 units: rows become columns.
inline void transpose(Units (&v)[8]) {
  float from[8][8], to[8][8];
  for (int i = 0; i < 8; ++i) store(from[i], v[i]);
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 8; ++j) to[j][i] = from[i][j];
  }
  for (int i = 0; i < 8; ++i) v[i] = load(to[i]);
}

#elif defined(__AVX512F__)

/// A row of a tile: 16 units.
using Units = __m512i;

inline Units load_units(const void* from) {
  return _mm512_loadu_si512(from);
}
/// The unit at `from`, broadcast.
inline Units spread_unit(const void* from) {
  int unit;
  __builtin_memcpy(&unit, from, sizeof unit);
  return _mm512_set1_epi32(unit);
}
inline Vec as_floats(Units words) {
  return _mm512_castsi512_ps(words);
}
inline Units as_units(Vec floats) {
  return _mm512_castps_si512(floats);
}

inline void store_tile(const Units (&rows)[16], void* to) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_storeu_si512(static_cast<char*>(to) + 64 * i, rows[i]);
}

/// 16 × 16 pairs: rows become columns.
inline void transpose(Units (&v)[16]) {
  Units t[16];
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

#else

/// Half a row of a tile: 8 units. In the registers' floating-point type, so that broadcast and
/// multiplication stay in one execution domain.
using Units = __m256;

inline Units load_units(const void* from) {
  return _mm256_loadu_ps(static_cast<const float*>(from));
}
inline Units spread_unit(const void* from) {
  return _mm256_broadcast_ss(reinterpret_cast<const float*>(from));
}
inline Vec as_floats(Units words) {
  return words;
}
inline Units as_units(Vec floats) {
  return floats;
}

/// 8 × 8 units: rows become columns.
inline void transpose(Units (&v)[8]) {
  Units t[8];
#pragma GCC unroll 8
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_ps(v[2 * i], v[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_ps(v[2 * i], v[2 * i + 1]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 2; ++i) {
    v[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
    v[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
    v[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
    v[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
  }
  // v[4 i + j], half h: column 4 h + j of rows 4 i … 4 i + 3.
#pragma GCC unroll 8
  for (int j = 0; j < 4; ++j) {
    t[j] = _mm256_permute2f128_ps(v[j], v[4 + j], 0x20);
    t[4 + j] = _mm256_permute2f128_ps(v[j], v[4 + j], 0x31);
  }
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) v[j] = t[j];
}

#endif

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
