#pragma once
// Codes of e4m3 and e5m2 from vectors, and vectors of BF16 from codes: the bits of simd_float8.h.

#include "ops/cpu/simd/simd_float8.h"

namespace viaduct::cpu::VIADUCT_ISA {

/// The constants of encode_e4m3.
struct E4m3Bits {
  static constexpr int kShift = 20;  // of FP32's mantissa
  static constexpr uint32_t kHalf = 0x7ffffu, kBias = 120u << 3, kNormal = 0x3c800000u,
                            kSubnormal = 0x46800000u, kMost = 0x7eu;
  static constexpr float kStep = 0x1p14f;
  static uint8_t encode(float x) { return encode_e4m3(x); }
  static constexpr float decode(uint8_t code) { return decode_e4m3(code); }
};
/// And of encode_e5m2.
struct E5m2Bits {
  static constexpr int kShift = 21;
  static constexpr uint32_t kHalf = 0xfffffu, kBias = 112u << 2, kNormal = 0x38800000u,
                            kSubnormal = 0x43000000u, kMost = 0x7bu;
  static constexpr float kStep = 0x1p7f;
  static uint8_t encode(float x) { return encode_e5m2(x); }
  static constexpr float decode(uint8_t code) { return decode_e5m2(code); }
};

#if !defined(VIADUCT_PORTABLE) && defined(__AVX512F__)

/// A code in each 32 bits.
template <class Bits>
inline __m512i code_words(Vec x) {
  const __m512i u = _mm512_castps_si512(x);
  const __m512i magnitude = _mm512_and_si512(u, _mm512_set1_epi32(0x7fffffff));
  const __m512i odd =
      _mm512_and_si512(_mm512_srli_epi32(magnitude, Bits::kShift), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(
      _mm512_add_epi32(magnitude, _mm512_set1_epi32(static_cast<int>(Bits::kHalf))), odd);
  const __m512i normal = _mm512_sub_epi32(_mm512_srli_epi32(rounded, Bits::kShift),
                                          _mm512_set1_epi32(static_cast<int>(Bits::kBias)));
  const __m512i stepped =
      _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(magnitude), set1(Bits::kStep)));
  const __mmask16 small =
      _mm512_cmplt_epu32_mask(magnitude, _mm512_set1_epi32(static_cast<int>(Bits::kNormal)));
  __m512i code = _mm512_mask_sub_epi32(normal, small, stepped,
                                       _mm512_set1_epi32(static_cast<int>(Bits::kSubnormal)));
  code = _mm512_min_epu32(code, _mm512_set1_epi32(static_cast<int>(Bits::kMost)));
  const __mmask16 nan = _mm512_cmpgt_epu32_mask(magnitude, _mm512_set1_epi32(0x7f800000));
  code = _mm512_mask_mov_epi32(code, nan, _mm512_set1_epi32(0x7f));
  return _mm512_or_si512(code, _mm512_and_si512(_mm512_srli_epi32(u, 24), _mm512_set1_epi32(0x80)));
}
template <class Bits>
inline void store_codes(uint8_t* to, Vec x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(code_words<Bits>(x)));
}
template <class Bits>
inline void store_codes(uint8_t* to, Vec x, Mask m) {
  _mm_mask_storeu_epi8(to, m, _mm512_cvtepi32_epi8(code_words<Bits>(x)));
}

/// The numbers of the codes without sign, as BF16.
template <class Bits>
struct CodeNumbers {
  alignas(64) uint16_t of[128];
  constexpr CodeNumbers() : of() {
    for (int code = 0; code < 128; ++code)
      of[code] =
          static_cast<uint16_t>(bits_of_float(Bits::decode(static_cast<uint8_t>(code))) >> 16);
  }
};
template <class Bits>
inline constexpr CodeNumbers<Bits> kCodeNumbers;

/// In four registers.
template <class Bits>
struct CodeTable {
  __m512i part[4];
  CodeTable() {
    for (int i = 0; i < 4; ++i) part[i] = _mm512_load_si512(kCodeNumbers<Bits>.of + 32 * i);
  }
  /// 32 codes as BF16, in order; of `m` those that are there.
  __m512i load(const uint8_t* codes, __mmask32 m) const {
    const __m512i code = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(m, codes));
    const __m512i low = _mm512_permutex2var_epi16(part[0], code, part[1]);
    const __m512i high = _mm512_permutex2var_epi16(part[2], code, part[3]);
    const __mmask32 upper = _mm512_test_epi16_mask(code, _mm512_set1_epi16(0x40));
    const __m512i sign = _mm512_slli_epi16(_mm512_and_si512(code, _mm512_set1_epi16(0x80)), 8);
    return _mm512_or_si512(_mm512_mask_mov_epi16(low, upper, high), sign);
  }
};

#elif !defined(VIADUCT_PORTABLE)

/// A code in each 32 bits.
template <class Bits>
inline __m256i code_words(Vec x) {
  const __m256i u = _mm256_castps_si256(x);
  const __m256i magnitude = _mm256_and_si256(u, _mm256_set1_epi32(0x7fffffff));
  const __m256i odd =
      _mm256_and_si256(_mm256_srli_epi32(magnitude, Bits::kShift), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(
      _mm256_add_epi32(magnitude, _mm256_set1_epi32(static_cast<int>(Bits::kHalf))), odd);
  const __m256i normal = _mm256_sub_epi32(_mm256_srli_epi32(rounded, Bits::kShift),
                                          _mm256_set1_epi32(static_cast<int>(Bits::kBias)));
  const __m256i stepped =
      _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(magnitude), set1(Bits::kStep)));
  const __m256i subnormal =
      _mm256_sub_epi32(stepped, _mm256_set1_epi32(static_cast<int>(Bits::kSubnormal)));
  const __m256i small =
      _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(Bits::kNormal)), magnitude);
  __m256i code = _mm256_min_epu32(_mm256_blendv_epi8(normal, subnormal, small),
                                  _mm256_set1_epi32(static_cast<int>(Bits::kMost)));
  const __m256i nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
  code = _mm256_blendv_epi8(code, _mm256_set1_epi32(0x7f), nan);
  return _mm256_or_si256(code, _mm256_and_si256(_mm256_srli_epi32(u, 24), _mm256_set1_epi32(0x80)));
}
template <class Bits>
inline uint64_t code_bytes(Vec x) {
  const __m256i lowest = _mm256_set1_epi32(0x0c080400);  // of each 128 bits, four times
  const __m256i bytes = _mm256_shuffle_epi8(code_words<Bits>(x), lowest);
  const auto low = static_cast<uint32_t>(_mm256_cvtsi256_si32(bytes));
  const auto high = static_cast<uint32_t>(_mm_cvtsi128_si32(_mm256_extracti128_si256(bytes, 1)));
  return uint64_t{high} << 32 | low;
}
template <class Bits>
inline void store_codes(uint8_t* to, Vec x) {
  const uint64_t bytes = code_bytes<Bits>(x);
  __builtin_memcpy(to, &bytes, sizeof(bytes));
}
template <class Bits>
inline void store_codes(uint8_t* to, Vec x, Mask m) {
  const uint64_t bytes = code_bytes<Bits>(x);
  for (int i = 0, n = lanes_in(m); i < n; ++i) to[i] = static_cast<uint8_t>(bytes >> 8 * i);
}

#endif

}  // namespace viaduct::cpu::VIADUCT_ISA
