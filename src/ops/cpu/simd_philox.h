#pragma once
// Philox4x32-10 of base/philox.h for a vector of counters. Internal linkage (see simd.h).

#include "ops/cpu/simd.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

#if defined(__AVX512F__)
using Words = __m512i;
inline Words words(uint32_t x) {
  return _mm512_set1_epi32(static_cast<int>(x));
}
inline Words load_words(const uint32_t* p) {
  return _mm512_loadu_si512(p);
}
inline Words exclusive_or(Words a, Words b) {
  return _mm512_xor_si512(a, b);
}
inline void multiply(Words a, Words b, Words& high, Words& low) {
  const Words even = _mm512_mul_epu32(a, b);
  const Words odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), b);
  low = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
  high = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
}
inline Words pairs_low(Words a, Words b) {
  return _mm512_unpacklo_epi32(a, b);
}
inline Words pairs_high(Words a, Words b) {
  return _mm512_unpackhi_epi32(a, b);
}
inline Words halves_low(Words a, Words b) {
  return _mm512_unpacklo_epi64(a, b);
}
inline Words halves_high(Words a, Words b) {
  return _mm512_unpackhi_epi64(a, b);
}
/// `factor` where the upper 23 bits of a word are ≥ threshold, else 0.
inline Vec keep(Words bits, Words threshold, Vec factor) {
  return _mm512_maskz_mov_ps(_mm512_cmpge_epi32_mask(_mm512_srli_epi32(bits, 9), threshold),
                             factor);
}
#else
using Words = __m256i;
inline Words words(uint32_t x) {
  return _mm256_set1_epi32(static_cast<int>(x));
}
inline Words load_words(const uint32_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline Words exclusive_or(Words a, Words b) {
  return _mm256_xor_si256(a, b);
}
inline void multiply(Words a, Words b, Words& high, Words& low) {
  const Words even = _mm256_mul_epu32(a, b);
  const Words odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), b);
  low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
  high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
}
inline Words pairs_low(Words a, Words b) {
  return _mm256_unpacklo_epi32(a, b);
}
inline Words pairs_high(Words a, Words b) {
  return _mm256_unpackhi_epi32(a, b);
}
inline Words halves_low(Words a, Words b) {
  return _mm256_unpacklo_epi64(a, b);
}
inline Words halves_high(Words a, Words b) {
  return _mm256_unpackhi_epi64(a, b);
}
/// `factor` where the upper 23 bits of a word are ≥ threshold, else 0.
inline Vec keep(Words bits, Words threshold, Vec factor) {
  const __m256i below = _mm256_cmpgt_epi32(threshold, _mm256_srli_epi32(bits, 9));
  return _mm256_andnot_ps(_mm256_castsi256_ps(below), factor);
}
#endif

/// Philox4x32-10 of base/philox.h, one counter (c0 … c3) a lane, in place.
inline void philox_rounds(uint64_t key, Words& c0, Words& c1, Words& c2, Words& c3) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  const Words m0 = words(0xD2511F53u), m1 = words(0xCD9E8D57u);
  for (int round = 0; round < 10; ++round) {
    Words high0, low0, high1, low1;
    multiply(c0, m0, high0, low0);
    multiply(c2, m1, high1, low1);
    c0 = exclusive_or(exclusive_or(high1, c1), words(k0));
    c2 = exclusive_or(exclusive_or(high0, c3), words(k1));
    c1 = low1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

/// The words of kLanes counters with equal low half and consecutive high halves `high` …: w[0] has
/// the first kLanes words in order (word 0 to 3 of the first counter, …), w[1] the next, to w[3].
inline void philox_words(uint64_t key, uint64_t low, uint64_t high, Words w[4]) {
  // Lane 4b + j takes counter high + j · kLanes / 4 + b, so that interleaving within 128-bit parts
  // puts the words in order.
  uint32_t high_low[kLanes], high_high[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint64_t counter = high + static_cast<uint64_t>(lane % 4 * (kLanes / 4) + lane / 4);
    high_low[lane] = static_cast<uint32_t>(counter);
    high_high[lane] = static_cast<uint32_t>(counter >> 32);
  }
  Words c0 = words(static_cast<uint32_t>(low)), c1 = words(static_cast<uint32_t>(low >> 32));
  Words c2 = load_words(high_low), c3 = load_words(high_high);
  philox_rounds(key, c0, c1, c2, c3);
  const Words a = pairs_low(c0, c1), b = pairs_low(c2, c3);
  const Words c = pairs_high(c0, c1), d = pairs_high(c2, c3);
  w[0] = halves_low(a, b);
  w[1] = halves_high(a, b);
  w[2] = halves_low(c, d);
  w[3] = halves_high(c, d);
}

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
