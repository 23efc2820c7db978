#pragma once
// Rows of FP32 to codes of E2M1 (tensor/nvfp4.h), to nearest even or stochastic. Without AVX-512 by
// plain loops without branches, which the compiler turns into vectors.

#include "ops/cpu/gemm/nvfp4_kernels.h"
#include "ops/cpu/simd/simd_float8.h"
#include "tensor/nvfp4.h"

namespace viaduct::cpu::VIADUCT_ISA {

/// Multiples of 0.5 up to 2, of 1 up to 4, of 2 up to 6.
struct E2m1Steps {
  float count;     // of the magnitude
  uint32_t first;  // code of none
  uint32_t sign;   // 8 if negative
};

inline E2m1Steps steps_of(float x) {
  const uint32_t bits = bits_of_float(x), magnitude_bits = bits & 0x7fffffffu;
  // In this order NaN is above all numbers; it is −0.
  const uint32_t least = magnitude_bits > 0x40c00000u ? 0x40c00000u : magnitude_bits;  // 6
  const bool below2 = least < 0x40000000u, below4 = least < 0x40800000u;
  const uint32_t per_step =
      choose_bits(below2, 0x40000000u, choose_bits(below4, 0x3f800000u, 0x3f000000u));
  const uint32_t first = choose_bits(below2, 0, choose_bits(below4, 2, 4));
  const uint32_t number = magnitude_bits <= 0x7f800000u ? 0xffffffffu : 0u;
  return {float_of_bits(least) * float_of_bits(per_step & number), first & number,
          choose_bits(number != 0, bits >> 28 & 8u, 8u)};
}

/// Instead of floor and nearbyint: a sum with 2^23 is an integer in its low bits, rounded to
/// nearest even.
inline uint32_t nearest(float steps) {
  return bits_of_float(steps + 0x1p23f) & 0xfu;
}

#if !defined(VIADUCT_PORTABLE) && defined(__AVX512F__)

/// Of numbers from 1/8 to 6 by the upper bits of BF16, which tell them by halves of an octave: the
/// code at the lower end, and the BF16 number from which on it is the next one. Half way between
/// two codes the even one is taken, so it is that number or the next above it.
struct CodeIntervals {
  static constexpr uint16_t kLeast = 0x3e00, kMost = 0x40c0;  // 1/8 and 6
  static constexpr int kShift = 6;
  alignas(64) uint16_t code[32], next[32];
  constexpr CodeIntervals() : code(), next() {
    for (int i = 0; i < 32; ++i) next[i] = 0x7fff;
    constexpr struct {
      uint16_t begin, code, next;
    } kIntervals[] = {{0x3e80, 0, 0x3e81}, {0x3ec0, 1, 0x7fff}, {0x3f00, 1, 0x7fff},
                      {0x3f40, 2, 0x7fff}, {0x3f80, 2, 0x3fa1}, {0x3fc0, 3, 0x3fe0},
                      {0x4000, 4, 0x4021}, {0x4040, 5, 0x4060}, {0x4080, 6, 0x40a1},
                      {0x40c0, 7, 0x7fff}};
    for (const auto& interval : kIntervals) {
      const int place = interval.begin >> kShift & 31;
      code[place] = interval.code, next[place] = interval.next;
    }
  }
};
constexpr CodeIntervals kIntervals;

inline __m512i all_words(int value) {
  return _mm512_set1_epi16(static_cast<int16_t>(value));
}

/// The codes of 32 numbers, to nearest even, a word each. The upper halves of their bits, with the
/// last bit set if there are bits below, are in the same place between the codes.
inline __m512i nearest_words(Vec low, Vec high, __m512i upper_halves) {
  const __m512i a = _mm512_castps_si512(low), b = _mm512_castps_si512(high);
  const __m512i below = _mm512_set1_epi32(0xffff);
  const __mmask32 rest =
      _mm512_kunpackw(_mm512_test_epi32_mask(b, below), _mm512_test_epi32_mask(a, below));
  __m512i x = _mm512_permutex2var_epi16(a, upper_halves, b);
  x = _mm512_mask_mov_epi16(x, rest, _mm512_or_si512(x, all_words(1)));
  const __m512i magnitude = _mm512_and_si512(x, all_words(0x7fff));
  const __mmask32 number = _mm512_cmple_epu16_mask(magnitude, all_words(0x7f80));
  const __m512i inside = _mm512_max_epu16(_mm512_min_epu16(magnitude, all_words(kIntervals.kMost)),
                                          all_words(kIntervals.kLeast));
  const __m512i place = _mm512_srli_epi16(inside, kIntervals.kShift);
  const __m512i code = _mm512_permutexvar_epi16(place, _mm512_load_si512(kIntervals.code));
  const __m512i next = _mm512_permutexvar_epi16(place, _mm512_load_si512(kIntervals.next));
  const __mmask32 above = _mm512_cmpge_epu16_mask(inside, next);
  const __m512i rounded = _mm512_mask_add_epi16(code, above, code, all_words(1));
  const __m512i sign = _mm512_and_si512(_mm512_srli_epi16(x, 12), all_words(8));
  return _mm512_mask_mov_epi16(all_words(8), number, _mm512_or_si512(rounded, sign));
}

/// By the bits of FP32 that tell halves of an octave: what steps_of multiplies with, and the first
/// code.
struct StepIntervals {
  static constexpr uint32_t kLeast = 0x3e000000, kMost = 0x40c00000;  // 1/8 and 6
  static constexpr int kShift = 22;
  alignas(64) float per_step[16];
  alignas(64) uint32_t first[16];
  constexpr StepIntervals() : per_step(), first() {
    for (int i = 0; i < 16; ++i) per_step[i] = 2, first[i] = 0;
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t above2 = ((0x40000000u >> kShift) + half) % 16, above4 = above2 + 2;
      per_step[above2] = 1, first[above2] = 2;
      per_step[above4] = 0.5f, first[above4] = 4;
    }
  }
};
constexpr StepIntervals kSteps;

/// The codes of 16 numbers, stochastic, each in 32 bits: steps_of, and a random part of one more.
inline __m512i stochastic_words(Vec x, __m256i random) {
  const auto all = [](uint32_t value) { return _mm512_set1_epi32(static_cast<int>(value)); };
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i magnitude = _mm512_and_si512(bits, all(0x7fffffffu));
  const __mmask16 number = _mm512_cmple_epu32_mask(magnitude, all(0x7f800000u));
  const __m512i least = _mm512_min_epu32(magnitude, all(StepIntervals::kMost));
  const __m512i place =
      _mm512_srli_epi32(_mm512_max_epu32(least, all(StepIntervals::kLeast)), StepIntervals::kShift);
  const Vec per_step = _mm512_permutexvar_ps(place, _mm512_load_ps(kSteps.per_step));
  const __m512i first = _mm512_permutexvar_epi32(place, _mm512_load_si512(kSteps.first));
  const Vec steps = mul(_mm512_castsi512_ps(least), per_step);
  const Vec drawn = _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(random));
  const Vec up = fma(drawn, set1(0x1p-16f), set1(0x1p-17f));  // exact
  const __m512i whole = _mm512_cvttps_epi32(add(steps, up));
  const __m512i sign = _mm512_and_si512(_mm512_srli_epi32(bits, 28), all(8));
  return _mm512_mask_or_epi32(all(8), number, _mm512_add_epi32(first, whole), sign);
}

/// What belongs to 16 columns from c on, of which `m` has those that are there: one value for all
/// of them (width 16), or one for each (1).
inline Vec of_columns(const float* values, int64_t width, int64_t c, Mask m) {
  return width == 1 ? load(values + c, m) : set1(values[c / kNvfp4Group]);
}

template <bool kRandom>
void encode_e2m1_as(const float* from, const float* divisors, int64_t width, const uint16_t* random,
                    int64_t count, uint8_t* to) {
  alignas(64) uint16_t places[32];
  for (int i = 0; i < 32; ++i) places[i] = static_cast<uint16_t>(2 * i);
  const __m512i lower_halves = _mm512_load_si512(places);
  const __m512i upper_halves = _mm512_add_epi16(lower_halves, all_words(1));
  for (int64_t c = 0; c < count; c += 32) {
    const int64_t here = count - c < 32 ? count - c : 32;
    const auto there = static_cast<__mmask32>(0xffffffffu >> (32 - here));
    const auto low = static_cast<Mask>(there), high = static_cast<Mask>(there >> 16);
    const int64_t second = here > 16 ? c + 16 : c;  // a place that there is
    const Vec a = div(load(from + c, low), of_columns(divisors, width, c, low));
    const Vec b = div(load(from + c + 16, high), of_columns(divisors, width, second, high));
    __m512i words;
    if constexpr (kRandom) {
      const __m512i drawn = _mm512_maskz_loadu_epi16(there, random + c);
      words = _mm512_permutex2var_epi16(stochastic_words(a, _mm512_castsi512_si256(drawn)),
                                        lower_halves,
                                        stochastic_words(b, _mm512_extracti64x4_epi64(drawn, 1)));
    } else {
      words = nearest_words(a, b, upper_halves);
    }
    // In each 32 bits the even element is below the odd one, 12 bits beside its place.
    const __m128i bytes =
        _mm512_cvtepi32_epi8(_mm512_or_si512(words, _mm512_srli_epi32(words, 12)));
    if (here == 32) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + c / 2), bytes);
    } else {
      _mm_mask_storeu_epi8(to + c / 2, static_cast<__mmask16>((1u << here / 2) - 1u), bytes);
    }
  }
}

inline void encode_e2m1(const float* from, const float* divisors, int64_t width,
                        const uint16_t* random, int64_t count, uint8_t* to) {
  random != nullptr ? encode_e2m1_as<true>(from, divisors, width, random, count, to)
                    : encode_e2m1_as<false>(from, divisors, width, random, count, to);
}

#else

/// to[c] = the value of column c's group; groups have `width` columns.
inline void spread(const float* of_groups, int64_t width, int64_t count, float* to) {
  for (int64_t c = 0; width == 1 && c < count; ++c) to[c] = of_groups[c];
  for (int64_t c = 0; width > 1 && c < count; ++c) to[c] = of_groups[c / kNvfp4Group];
}

inline void encode_e2m1(const float* from, const float* divisors, int64_t width,
                        const uint16_t* random, int64_t count, uint8_t* to) {
  alignas(64) float of_columns[kNvfp4Columns];
  alignas(64) uint8_t codes[kNvfp4Columns];
  spread(divisors, width, count, of_columns);
  if (random == nullptr) {
    for (int64_t c = 0; c < count; ++c) {
      const E2m1Steps steps = steps_of(from[c] / of_columns[c]);
      codes[c] = static_cast<uint8_t>((steps.first + nearest(steps.count)) | steps.sign);
    }
  } else {
    for (int64_t c = 0; c < count; ++c) {
      const E2m1Steps steps = steps_of(from[c] / of_columns[c]);
      const float up = (static_cast<float>(static_cast<int32_t>(random[c])) + 0.5f) * 0x1p-16f;
      const auto whole = static_cast<uint32_t>(static_cast<int32_t>(steps.count + up));
      codes[c] = static_cast<uint8_t>((steps.first + whole) | steps.sign);
    }
  }
  for (int64_t c = 0; c < count / 2; ++c)
    to[c] = static_cast<uint8_t>(codes[2 * c] | codes[2 * c + 1] << 4);
}

#endif

}  // namespace viaduct::cpu::VIADUCT_ISA
