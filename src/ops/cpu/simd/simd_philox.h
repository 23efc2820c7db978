#pragma once
// Philox4x32-10 of base/philox.h for a vector of counters. Internal linkage (see simd.h).

#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/simd_double.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

#if defined(VIADUCT_PORTABLE)
using Words = WideBits;
inline Words words(uint32_t x) {
  return wide_bits(uint64_t{x} << 32 | x);
}
inline Words load_words(const uint32_t* p) {
  return load_as<Words>(p);
}
inline Words exclusive_or(Words a, Words b) {
  return a ^ b;
}
inline void multiply(Words a, Words b, Words& high, Words& low) {
  const Words even = multiply_low(a, b), odd = multiply_low(shift_right<32>(a), b);
  low = join_halves(even, odd);
  high = join_halves(shift_right<32>(even), shift_right<32>(odd));
}
/// `factor` where the upper 23 bits of a word are ≥ threshold, else 0.
inline Vec keep(Words bits, Words threshold, Vec factor) {
  using Bits = uint32_t __attribute__((vector_size(32)));
  using Ints = int32_t __attribute__((vector_size(32)));
  return select(bits_as<Mask>((Ints)((Bits)bits >> 9) >= (Ints)threshold), factor, zero());
}
#elif defined(__AVX512F__)
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
/// `factor` where the upper 23 bits of a word are ≥ threshold, else 0.
inline Vec keep(Words bits, Words threshold, Vec factor) {
  const __m256i below = _mm256_cmpgt_epi32(threshold, _mm256_srli_epi32(bits, 9));
  return _mm256_andnot_ps(_mm256_castsi256_ps(below), factor);
}
#endif

/// Philox4x32-10 of base/philox.h, one counter (c0 … c3) per lane, in place.
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

/// The same for kWide counters, one in the lower half of each 64-bit lane: a round takes two thirds
/// of the operations. The upper halves are ignored, before and after.
inline void philox_lanes(uint64_t key, WideBits& c0, WideBits& c1, WideBits& c2, WideBits& c3) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  const WideBits m0 = wide_bits(0xD2511F53u), m1 = wide_bits(0xCD9E8D57u);
  for (int round = 0; round < 10; ++round) {
    const WideBits p0 = multiply_low(c0, m0), p1 = multiply_low(c2, m1);
    c0 = exclusive_or(shift_right<32>(p1), c1, wide_bits(k0));
    c2 = exclusive_or(shift_right<32>(p0), c3, wide_bits(k1));
    c1 = p1;
    c3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

/// Numbers 0 … kWide − 1 in an order that makes neighbours when even and odd lanes are taken in
/// pairs: lane 2 i has number i, lane 2 i + 1 number kWide / 2 + i.
inline WideBits counter_order() {
  uint64_t order[kWide];
  for (uint64_t lane = 0; lane < kWide; ++lane) order[lane] = lane % 2 * (kWide / 2) + lane / 2;
  return load_bits(order);
}

/// The words of kLanes counters with equal low half and consecutive high halves `high` …: w[0] has
/// the first kLanes words in order (word 0 to 3 of the first counter, …), w[1] the next, to w[3].
inline void philox_words(uint64_t key, uint64_t low, uint64_t high, Words w[4]) {
  for (int half = 0; half < 2; ++half, high += kWide) {
    WideBits c0 = wide_bits(low), c1 = wide_bits(low >> 32);
    WideBits c2 = add_bits(wide_bits(high), counter_order()), c3 = shift_right<32>(c2);
    philox_lanes(key, c0, c1, c2, c3);
    const Wide a = wide_of(join_halves(c0, c1)), b = wide_of(join_halves(c2, c3));
    w[2 * half] = bits_of(pairs_of_even(a, b));
    w[2 * half + 1] = bits_of(pairs_of_odd(a, b));
  }
}

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
