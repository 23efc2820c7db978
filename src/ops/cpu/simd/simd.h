#pragma once
// Vectors of floats for kernels that are written once and compiled per instruction set. The code of
// a family is NAME_kernels.cpp, inside namespace viaduct::cpu::VIADUCT_ISA; its first line names
// the instruction sets that it is compiled for. Everything here is in the namespace of the
// instruction set, so that the linker cannot merge inline functions compiled for different ones.
// For the same reason kernels use no templates of the standard library.

#include <cstdint>

#include "tensor/dtype.h"

#if !defined(VIADUCT_PORTABLE)
#include <immintrin.h>
#endif

#if defined(VIADUCT_PORTABLE)
#define VIADUCT_ISA portable
#elif defined(__AMX_BF16__)
#define VIADUCT_ISA amx
#elif defined(__AVX512BF16__)
#define VIADUCT_ISA avx512_bf16
#elif defined(__AVX512F__)
#define VIADUCT_ISA avx512
#else
#define VIADUCT_ISA avx2
#endif

#if defined(VIADUCT_PORTABLE)
#include "ops/cpu/simd/simd_portable.h"
#endif

namespace viaduct::cpu::VIADUCT_ISA {

#if defined(VIADUCT_PORTABLE)
// simd_portable.h
#elif defined(__AVX512F__)

inline constexpr int kLanes = 16;
using Vec = __m512;
using Mask = __mmask16;

inline Vec zero() {
  return _mm512_setzero_ps();
}
inline Vec set1(float x) {
  return _mm512_set1_ps(x);
}
inline Vec load(const float* p) {
  return _mm512_loadu_ps(p);
}
inline void store(float* p, Vec v) {
  _mm512_storeu_ps(p, v);
}
/// The first `n` < kLanes elements, the rest zero; memory beyond them is not accessed.
inline Mask first(int64_t n) {
  return static_cast<Mask>((1u << n) - 1u);
}
inline Vec load(const float* p, Mask m) {
  return _mm512_maskz_loadu_ps(m, p);
}
inline void store(float* p, Vec v, Mask m) {
  _mm512_mask_storeu_ps(p, m, v);
}

inline Vec widen_bf16(__m256i x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}
inline __m256i narrow_bf16_by_integers(Vec v) {  // round to nearest even, NaN stays NaN
  const __m512i u = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  __m512i r = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  r = _mm512_mask_or_epi32(r, nan, u, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16));
}
#if defined(__AVX512BF16__)
/// The same bits by the instruction, which flushes subnormal numbers to zero and so must not get
/// them.
inline __m256i narrow_bf16(Vec v) {
  if (__builtin_expect(_mm512_fpclass_ps_mask(v, 0x20) != 0, 0)) return narrow_bf16_by_integers(v);
  return (__m256i)_mm512_cvtneps_pbh(v);
}
#else
inline __m256i narrow_bf16(Vec v) {
  return narrow_bf16_by_integers(v);
}
#endif
inline Vec load(const bfloat16* p) {
  return widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline void store(bfloat16* p, Vec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_bf16(v));
}
inline Vec load(const bfloat16* p, Mask m) {
  return widen_bf16(_mm256_maskz_loadu_epi16(m, p));
}
inline void store(bfloat16* p, Vec v, Mask m) {
  _mm256_mask_storeu_epi16(p, m, narrow_bf16(v));
}
inline Vec load(const float16* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline void store(float16* p, Vec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
inline Vec load(const float16* p, Mask m) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, p));
}
inline void store(float16* p, Vec v, Mask m) {
  _mm256_mask_storeu_epi16(p, m, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

inline Vec fma(Vec a, Vec b, Vec c) {
  return _mm512_fmadd_ps(a, b, c);
}  // a · b + c
inline Vec fnma(Vec a, Vec b, Vec c) {
  return _mm512_fnmadd_ps(a, b, c);
}  // c − a · b
inline Vec maximum(Vec a, Vec b) {
  return _mm512_max_ps(a, b);
}
inline Vec minimum(Vec a, Vec b) {
  return _mm512_min_ps(a, b);
}
inline Vec sqrt(Vec a) {
  return _mm512_sqrt_ps(a);
}
inline Vec absolute(Vec a) {
  return _mm512_abs_ps(a);
}
inline Mask less(Vec a, Vec b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
inline Vec select(Mask m, Vec yes, Vec no) {
  return _mm512_mask_blend_ps(m, no, yes);
}
inline Vec copy_sign(Vec magnitude, Vec sign) {
  return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_set1_epi32(0x7fffffff),
                                                       _mm512_castps_si512(magnitude),
                                                       _mm512_castps_si512(sign), 0xCA));
}
inline Vec round_nearest(Vec a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/// v · 2^n for integral n.
inline Vec scale_by_power(Vec v, Vec n) {
  return _mm512_scalef_ps(v, n);
}
inline float sum(Vec v) {
  return _mm512_reduce_add_ps(v);
}
inline float largest(Vec v) {
  return _mm512_reduce_max_ps(v);
}

#else

inline constexpr int kLanes = 8;
using Vec = __m256;
using Mask = __m256i;  // all ones in active lanes

inline Vec zero() {
  return _mm256_setzero_ps();
}
inline Vec set1(float x) {
  return _mm256_set1_ps(x);
}
inline Vec load(const float* p) {
  return _mm256_loadu_ps(p);
}
inline void store(float* p, Vec v) {
  _mm256_storeu_ps(p, v);
}
/// The first `n` < kLanes elements, the rest zero; memory beyond them is not accessed.
inline Mask first(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Vec load(const float* p, Mask m) {
  return _mm256_maskload_ps(p, m);
}
inline void store(float* p, Vec v, Mask m) {
  _mm256_maskstore_ps(p, m, v);
}

inline Vec widen_bf16(__m128i x) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
inline __m128i narrow_bf16(Vec v) {  // round to nearest even, NaN stays NaN
  const __m256i u = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m256i r =
      _mm256_blendv_epi8(rounded, _mm256_or_si256(u, _mm256_set1_epi32(0x400000)), nan);
  const __m256i high = _mm256_srli_epi32(r, 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
}
/// The number of leading lanes in a mask made by `first`.
inline int lanes_in(Mask m) {
  return __builtin_popcount(static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(m))));
}
inline __m128i load_16bit(const void* p, Mask m) {
  alignas(16) uint16_t buffer[8] = {};
  const auto* source = static_cast<const uint16_t*>(p);
  for (int i = 0, n = lanes_in(m); i < n; ++i) buffer[i] = source[i];
  return _mm_load_si128(reinterpret_cast<const __m128i*>(buffer));
}
inline void store_16bit(void* p, __m128i v, Mask m) {
  alignas(16) uint16_t buffer[8];
  _mm_store_si128(reinterpret_cast<__m128i*>(buffer), v);
  auto* target = static_cast<uint16_t*>(p);
  for (int i = 0, n = lanes_in(m); i < n; ++i) target[i] = buffer[i];
}
inline Vec load(const bfloat16* p) {
  return widen_bf16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline void store(bfloat16* p, Vec v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow_bf16(v));
}
inline Vec load(const bfloat16* p, Mask m) {
  return widen_bf16(load_16bit(p, m));
}
inline void store(bfloat16* p, Vec v, Mask m) {
  store_16bit(p, narrow_bf16(v), m);
}
inline Vec load(const float16* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline void store(float16* p, Vec v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
inline Vec load(const float16* p, Mask m) {
  return _mm256_cvtph_ps(load_16bit(p, m));
}
inline void store(float16* p, Vec v, Mask m) {
  store_16bit(p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT), m);
}

inline Vec fma(Vec a, Vec b, Vec c) {
  return _mm256_fmadd_ps(a, b, c);
}  // a · b + c
inline Vec fnma(Vec a, Vec b, Vec c) {
  return _mm256_fnmadd_ps(a, b, c);
}  // c − a · b
inline Vec maximum(Vec a, Vec b) {
  return _mm256_max_ps(a, b);
}
inline Vec minimum(Vec a, Vec b) {
  return _mm256_min_ps(a, b);
}
inline Vec sqrt(Vec a) {
  return _mm256_sqrt_ps(a);
}
inline Vec absolute(Vec a) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
inline Mask less(Vec a, Vec b) {
  return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
inline Vec select(Mask m, Vec yes, Vec no) {
  return _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(m));
}
inline Vec copy_sign(Vec magnitude, Vec sign) {
  const Vec bit = _mm256_set1_ps(-0.0f);
  return _mm256_or_ps(_mm256_andnot_ps(bit, magnitude), _mm256_and_ps(bit, sign));
}
inline Vec round_nearest(Vec a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/// v · 2^n for integral n in [−252, 252] (two steps, so that results near the smallest normal
/// number stay correct).
inline Vec scale_by_power(Vec v, Vec n) {
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  const __m256i rest = _mm256_sub_epi32(whole, half);
  const __m256i bias = _mm256_set1_epi32(127);
  const Vec a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
  const Vec b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
  return _mm256_mul_ps(_mm256_mul_ps(v, a), b);
}
inline float sum(Vec v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float largest(Vec v) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

#endif

inline Vec add(Vec a, Vec b) {
  return a + b;
}
inline Vec sub(Vec a, Vec b) {
  return a - b;
}
inline Vec mul(Vec a, Vec b) {
  return a * b;
}
inline Vec div(Vec a, Vec b) {
  return a / b;
}

/// e^x to about 2 units in the last place; 0 below −87.3, infinite above 88.7, NaN for NaN.
inline Vec exp(Vec x) {
  // x = n ln 2 + r, |r| ≤ ln 2 / 2, with ln 2 split in two so that r is exact; then the Taylor
  // polynomial of degree 7.
  const Vec clamped =
      minimum(set1(88.8f), maximum(set1(-104.0f), x));  // max/min return the second operand for NaN
  const Vec n = round_nearest(mul(clamped, set1(1.44269504088896341f)));
  Vec r = fnma(n, set1(0.693145751953125f), clamped);
  r = fnma(n, set1(1.42860682030941723e-6f), r);
  Vec p = set1(1.0f / 5040);
  p = fma(p, r, set1(1.0f / 720));
  p = fma(p, r, set1(1.0f / 120));
  p = fma(p, r, set1(1.0f / 24));
  p = fma(p, r, set1(1.0f / 6));
  p = fma(p, r, set1(0.5f));
  p = fma(p, r, set1(1.0f));
  p = fma(p, r, set1(1.0f));
  return scale_by_power(p, n);
}

/// 1 / (1 + e^−x).
inline Vec sigmoid(Vec x) {
  return div(set1(1.0f), add(set1(1.0f), exp(sub(zero(), x))));
}

/// tanh to about 3 units in the last place (a series near 0, where 1 − 2 / (e^2x + 1) cancels).
inline Vec tanh(Vec x) {
  const Vec a = minimum(absolute(x), set1(10.0f));
  const Vec big = sub(set1(1.0f), div(set1(2.0f), add(exp(add(a, a)), set1(1.0f))));
  const Vec s = mul(a, a);
  Vec p = set1(-1382.0f / 155925);
  p = fma(p, s, set1(62.0f / 2835));
  p = fma(p, s, set1(-17.0f / 315));
  p = fma(p, s, set1(2.0f / 15));
  p = fma(p, s, set1(-1.0f / 3));
  const Vec small = fma(mul(a, s), p, a);
  return copy_sign(select(less(a, set1(0.35f)), small, big), x);
}

}  // namespace viaduct::cpu::VIADUCT_ISA
