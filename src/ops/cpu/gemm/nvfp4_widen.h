#pragma once
// Rows of codes of E2M1 (tensor/nvfp4.h) to BF16, times the scales of their groups.

#include "ops/cpu/gemm/nvfp4_encode.h"  // spread
#include "ops/cpu/gemm/nvfp4_kernels.h"
#include "ops/cpu/simd/simd_float8.h"
#include "tensor/nvfp4.h"

namespace viaduct::cpu::VIADUCT_ISA {

constexpr float decode_e2m1(uint32_t bits) {
  const uint32_t code = bits & 7u;
  const float subnormal = static_cast<float>(static_cast<int32_t>(code)) * 0.5f;
  const uint32_t normal = (code << 22) + (126u << 23);
  return float_of_bits(choose_bits(code < 2, bits_of_float(subnormal), normal) | (bits & 8u) << 28);
}

#if !defined(VIADUCT_PORTABLE) && defined(__AVX512F__)

/// The numbers of the codes as BF16, twice.
struct E2m1Numbers {
  alignas(64) uint16_t of[32];
  constexpr E2m1Numbers() : of() {
    for (uint32_t code = 0; code < 32; ++code)
      of[code] = static_cast<uint16_t>(bits_of_float(decode_e2m1(code & 15u)) >> 16);
  }
};
constexpr E2m1Numbers kNumbers;

/// Two codes of each byte, in order: words from 0 to 15.
inline __m512i code_words(const uint8_t* codes, __mmask16 there) {
  const __m512i bytes = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(there, codes));
  return _mm512_and_si512(_mm512_or_si512(bytes, _mm512_slli_epi32(bytes, 12)),
                          _mm512_set1_epi32(0x000f000f));
}

/// A product of 2 and 4 significant bits: rounding to BF16 cuts off zeros.
inline __m256i cut_product(__m256i numbers, Vec scales) {
  const __m512i product = _mm512_castps_si512(mul(widen_bf16(numbers), scales));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(product, 16));
}

/// Each two groups of 16 columns have a table of the products of all numbers with their scales: in
/// word 2 n + g is number n times the scale of group g.
inline void widen_lines(const uint8_t* codes, const float* scales, int64_t count, bfloat16* to) {
  const Vec numbers = widen_bf16(_mm256_load_si256(reinterpret_cast<const __m256i*>(kNumbers.of)));
  const __m512i group = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(1), 1);
  for (int64_t c = 0; c < count; c += 32, scales += 2) {
    const int64_t here = count - c < 32 ? count - c : 32;
    const auto pairs = static_cast<__mmask16>((1u << here / 2) - 1u);
    const __m512i first = _mm512_castps_si512(mul(numbers, set1(scales[0])));
    const __m512i second = _mm512_castps_si512(mul(numbers, set1(scales[here > 16 ? 1 : 0])));
    const __m512i table = _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(first, 16), second);
    const __m512i words = code_words(codes + c / 2, pairs);
    const __m512i places = _mm512_add_epi16(_mm512_add_epi16(words, words), group);
    _mm512_mask_storeu_epi16(to + c, static_cast<__mmask32>(0xffffffffu >> (32 - here)),
                             _mm512_permutexvar_epi16(places, table));
  }
}

inline void widen_e2m1(const uint8_t* codes, const float* scales, int64_t width, int64_t count,
                       bfloat16* to) {
  if (width > 1) return widen_lines(codes, scales, count, to);
  const __m512i numbers = _mm512_load_si512(kNumbers.of);
  for (int64_t c = 0; c < count; c += 32) {
    const int64_t here = count - c < 32 ? count - c : 32;
    const auto there = static_cast<__mmask32>(0xffffffffu >> (32 - here));
    const auto low = static_cast<Mask>(there), high = static_cast<Mask>(there >> 16);
    const __m512i words = code_words(codes + c / 2, static_cast<__mmask16>((1u << here / 2) - 1u));
    const __m512i values = _mm512_permutexvar_epi16(words, numbers);
    const __m256i first = cut_product(_mm512_castsi512_si256(values), load(scales + c, low));
    const __m256i second =
        cut_product(_mm512_extracti64x4_epi64(values, 1), load(scales + c + 16, high));
    _mm512_mask_storeu_epi16(to + c, there,
                             _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1));
  }
}

#else

inline void widen_e2m1(const uint8_t* codes, const float* scales, int64_t width, int64_t count,
                       bfloat16* to) {
  alignas(64) uint8_t apart[kNvfp4Columns];
  alignas(64) float of_columns[kNvfp4Columns];
  auto* out = reinterpret_cast<uint16_t*>(to);
  for (int64_t left = count; left > 0; left -= kNvfp4Columns) {
    const int64_t here = left < kNvfp4Columns ? left : kNvfp4Columns;
    spread(scales, width, here, of_columns);
    for (int64_t c = 0; c < here / 2; ++c) {
      apart[2 * c] = codes[c] & 15u;
      apart[2 * c + 1] = codes[c] >> 4;
    }
    // A product of 2 and 4 significant bits: rounding to BF16 cuts off zeros.
    for (int64_t c = 0; c < here; ++c)
      out[c] = static_cast<uint16_t>(bits_of_float(decode_e2m1(apart[c]) * of_columns[c]) >> 16);
    codes += kNvfp4Columns / 2, out += kNvfp4Columns, scales += kNvfp4Columns / width;
  }
}

#endif

}  // namespace viaduct::cpu::VIADUCT_ISA
