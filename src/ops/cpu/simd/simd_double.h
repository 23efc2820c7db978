#pragma once
// Vectors of doubles and of 64-bit integers, half as many lanes as simd.h has floats. + − · / on
// `Wide`, and + − & | ^ on `WideBits`, are the compiler's. Internal linkage (see simd.h).

#include "ops/cpu/simd/simd.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

inline constexpr int kWide = kLanes / 2;

#if defined(__AVX512F__)
using Wide = __m512d;
using WideBits = __m512i;
inline Wide wide(double x) {
  return _mm512_set1_pd(x);
}
inline Wide load_wide(const double* p) {
  return _mm512_loadu_pd(p);
}
inline Wide load_wide(const float* p) {
  return _mm512_cvtps_pd(_mm256_loadu_ps(p));
}
inline void store_wide(double* p, Wide v) {
  _mm512_storeu_pd(p, v);
}
inline Wide larger(Wide a, Wide b) {
  return _mm512_max_pd(a, b);
}
inline Wide magnitude(Wide a) {
  return _mm512_abs_pd(a);
}
inline Wide fma_wide(Wide a, Wide b, Wide c) {
  return _mm512_fmadd_pd(a, b, c);
}
inline Wide sqrt_wide(Wide a) {
  return _mm512_sqrt_pd(a);
}
inline WideBits bits_of(Wide a) {
  return _mm512_castpd_si512(a);
}
inline Wide wide_of(WideBits a) {
  return _mm512_castsi512_pd(a);
}
inline WideBits wide_bits(uint64_t x) {
  return _mm512_set1_epi64(static_cast<long long>(x));
}
inline WideBits add_bits(WideBits a, WideBits b) {  // modulo 2^64
  return _mm512_add_epi64(a, b);
}
inline WideBits load_bits(const uint64_t* p) {
  return _mm512_loadu_si512(p);
}
inline void store_bits(int64_t* p, WideBits v) {
  _mm512_storeu_si512(p, v);
}
template <int kCount>
WideBits shift_left(WideBits a) {
  return _mm512_slli_epi64(a, kCount);
}
template <int kCount>
WideBits shift_right(WideBits a) {  // zeros come in
  return _mm512_srli_epi64(a, kCount);
}
/// The product of the lower halves of the lanes.
inline WideBits multiply_low(WideBits a, WideBits b) {
  return _mm512_mul_epu32(a, b);
}
inline WideBits exclusive_or(WideBits a, WideBits b, WideBits c) {
  return _mm512_ternarylogic_epi64(a, b, c, 0x96);
}
/// The lanes of `yes` where the highest bit of `signs` is set.
inline Wide select_by_sign(WideBits signs, Wide yes, Wide no) {
  return _mm512_mask_blend_pd(_mm512_movepi64_mask(signs), no, yes);
}
/// Even lanes of a and b in turn, within parts of two lanes; the same of odd lanes.
inline Wide pairs_of_even(Wide a, Wide b) {
  return _mm512_unpacklo_pd(a, b);
}
inline Wide pairs_of_odd(Wide a, Wide b) {
  return _mm512_unpackhi_pd(a, b);
}
/// The lower half of every lane of `low`, with that of `high` above it.
inline WideBits join_halves(WideBits low, WideBits high) {
  return _mm512_mask_blend_epi32(0xAAAA, low, _mm512_slli_epi64(high, 32));
}
#else
using Wide = __m256d;
using WideBits = __m256i;
inline Wide wide(double x) {
  return _mm256_set1_pd(x);
}
inline Wide load_wide(const double* p) {
  return _mm256_loadu_pd(p);
}
inline Wide load_wide(const float* p) {
  return _mm256_cvtps_pd(_mm_loadu_ps(p));
}
inline void store_wide(double* p, Wide v) {
  _mm256_storeu_pd(p, v);
}
inline Wide larger(Wide a, Wide b) {
  return _mm256_max_pd(a, b);
}
inline Wide magnitude(Wide a) {
  return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a);
}
inline Wide fma_wide(Wide a, Wide b, Wide c) {
  return _mm256_fmadd_pd(a, b, c);
}
inline Wide sqrt_wide(Wide a) {
  return _mm256_sqrt_pd(a);
}
inline WideBits bits_of(Wide a) {
  return _mm256_castpd_si256(a);
}
inline Wide wide_of(WideBits a) {
  return _mm256_castsi256_pd(a);
}
inline WideBits wide_bits(uint64_t x) {
  return _mm256_set1_epi64x(static_cast<long long>(x));
}
inline WideBits add_bits(WideBits a, WideBits b) {  // modulo 2^64
  return _mm256_add_epi64(a, b);
}
inline WideBits load_bits(const uint64_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline void store_bits(int64_t* p, WideBits v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
}
template <int kCount>
WideBits shift_left(WideBits a) {
  return _mm256_slli_epi64(a, kCount);
}
template <int kCount>
WideBits shift_right(WideBits a) {  // zeros come in
  return _mm256_srli_epi64(a, kCount);
}
/// The product of the lower halves of the lanes.
inline WideBits multiply_low(WideBits a, WideBits b) {
  return _mm256_mul_epu32(a, b);
}
inline WideBits exclusive_or(WideBits a, WideBits b, WideBits c) {
  return _mm256_xor_si256(a, _mm256_xor_si256(b, c));
}
/// The lanes of `yes` where the highest bit of `signs` is set.
inline Wide select_by_sign(WideBits signs, Wide yes, Wide no) {
  return _mm256_blendv_pd(no, yes, _mm256_castsi256_pd(signs));
}
/// Even lanes of a and b in turn, within parts of two lanes; the same of odd lanes.
inline Wide pairs_of_even(Wide a, Wide b) {
  return _mm256_unpacklo_pd(a, b);
}
inline Wide pairs_of_odd(Wide a, Wide b) {
  return _mm256_unpackhi_pd(a, b);
}
/// The lower half of every lane of `low`, with that of `high` above it.
inline WideBits join_halves(WideBits low, WideBits high) {
  return _mm256_blend_epi32(low, _mm256_slli_epi64(high, 32), 0xAA);
}
#endif

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
