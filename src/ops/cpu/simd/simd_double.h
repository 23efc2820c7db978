#pragma once
// Vectors of doubles and of 64-bit integers, half as many lanes as simd.h has floats. + − · / on
// `Wide`, and + − & | ^ on `WideBits`, are the compiler's. Internal linkage (see simd.h).

#include "ops/cpu/simd/simd.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

inline constexpr int kWide = kLanes / 2;

#if defined(VIADUCT_PORTABLE)
using Wide = double __attribute__((vector_size(32)));
using WideBits = long long __attribute__((vector_size(32)));
using WideWords = unsigned long long __attribute__((vector_size(32)));
inline Wide wide(double x) {
  return Wide{x, x, x, x};
}
inline Wide load_wide(const double* p) {
  return load_as<Wide>(p);
}
inline Wide load_wide(const float* p) {
  using Four = float __attribute__((vector_size(16)));
  return __builtin_convertvector(load_as<Four>(p), Wide);
}
inline void store_wide(double* p, Wide v) {
  store_as(p, v);
}
inline Wide larger(Wide a, Wide b) {
  return a > b ? a : b;
}
inline Wide fma_wide(Wide a, Wide b, Wide c) {
  Wide r;
  for (int i = 0; i < kWide; ++i) r[i] = __builtin_fma(a[i], b[i], c[i]);
  return r;
}
inline Wide sqrt_wide(Wide a) {
  Wide r;
  for (int i = 0; i < kWide; ++i) r[i] = __builtin_sqrt(a[i]);
  return r;
}
inline WideBits bits_of(Wide a) {
  return (WideBits)a;
}
inline Wide wide_of(WideBits a) {
  return (Wide)a;
}
inline WideBits wide_bits(uint64_t x) {
  const auto bits = static_cast<long long>(x);
  return WideBits{bits, bits, bits, bits};
}
inline Wide magnitude(Wide a) {
  return wide_of(bits_of(a) & wide_bits(~uint64_t{0} >> 1));
}
inline WideBits add_bits(WideBits a, WideBits b) {  // modulo 2^64
  return (WideBits)((WideWords)a + (WideWords)b);
}
inline WideBits load_bits(const uint64_t* p) {
  return load_as<WideBits>(p);
}
inline void store_bits(int64_t* p, WideBits v) {
  store_as(p, v);
}
template <int kCount>
WideBits shift_left(WideBits a) {
  return (WideBits)((WideWords)a << kCount);
}
template <int kCount>
WideBits shift_right(WideBits a) {  // zeros come in
  return (WideBits)((WideWords)a >> kCount);
}
/// The product of the lower halves of the lanes.
inline WideBits multiply_low(WideBits a, WideBits b) {
  const WideBits low = wide_bits(0xffffffffu);
  return (WideBits)((WideWords)(a & low) * (WideWords)(b & low));
}
inline WideBits exclusive_or(WideBits a, WideBits b, WideBits c) {
  return a ^ b ^ c;
}
/// The lanes of `yes` where the highest bit of `signs` is set.
inline Wide select_by_sign(WideBits signs, Wide yes, Wide no) {
  return signs < 0 ? yes : no;
}
/// Even lanes of a and b in turn, within parts of two lanes; the same of odd lanes.
inline Wide pairs_of_even(Wide a, Wide b) {
  return __builtin_shuffle(a, b, WideBits{0, 4, 2, 6});
}
inline Wide pairs_of_odd(Wide a, Wide b) {
  return __builtin_shuffle(a, b, WideBits{1, 5, 3, 7});
}
/// The lower half of every lane of `low`, with that of `high` above it.
inline WideBits join_halves(WideBits low, WideBits high) {
  return (low & wide_bits(0xffffffffu)) | shift_left<32>(high);
}
#elif defined(__AVX512F__)
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
