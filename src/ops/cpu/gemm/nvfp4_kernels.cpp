// instruction sets: portable avx2 avx512
// Kernels of NVFP4 operands, compiled per instruction set. Conversions of codes are plain loops
// without branches, which the compiler turns into vectors.

#include "ops/cpu/gemm/nvfp4_kernels.h"

#include "ops/cpu/simd/simd_float8.h"
#include "ops/cpu/simd/simd_philox.h"
#include "ops/cpu/simd/simd_rows.h"
#include "tensor/hadamard.h"
#include "tensor/nvfp4.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// A column of vectors.
using Rows = Vec[kRotated];

/// In this order of bits, NaN is above infinity and infinity above all numbers.
inline int32_t magnitude_bits(float x) {
  return static_cast<int32_t>(bits_of_float(x) & 0x7fffffffu);
}

/// The first `rows` of 16 that are `next` elements apart; the others are zeros.
template <class T, class... M>
inline void load_rows(const T* from, int64_t next, int64_t rows, Rows& x, M... mask) {
  if (rows == kRotated) {
#pragma GCC unroll 16
    for (int r = 0; r < kRotated; ++r) x[r] = load(from + r * next, mask...);
    return;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRotated; ++r) x[r] = r < rows ? load(from + r * next, mask...) : zero();
}

/// The rounds of the rotation with rows less than `end` apart.
inline void rotate_rounds(Rows& x, int end) {
#pragma GCC unroll 16
  for (int i = 0; i < kRotated; ++i) x[i] = mul(x[i], set1(kRotationSigns[i] * 0.25f));
#pragma GCC unroll 4
  for (int apart = 1; apart < end; apart *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < kRotated; ++i) {
      if ((i & apart) != 0) continue;
      const Vec sum = add(x[i], x[i + apart]), difference = sub(x[i], x[i + apart]);
      x[i] = sum;
      x[i + apart] = difference;
    }
  }
}

template <bool kRotates, class T>
void load_columns(const T* from, int64_t next, int64_t rows, int64_t count, float* to) {
  for_row(count, [=](int64_t c, auto... mask) {
    Rows x;
    load_rows(from + c, next, rows, x, mask...);
    if (kRotates) rotate_rounds(x, kRotated);
#pragma GCC unroll 16
    for (int r = 0; r < kRotated; ++r) store(to + r * kNvfp4Columns + c, x[r], mask...);
  });
}

void load_block(const void* from, int64_t stride, DType dtype, int64_t rows, int64_t count,
                bool rotated, float* to) {
  with_floats(dtype, from, [&](const auto* first) {
    const int64_t next = stride / static_cast<int64_t>(sizeof(*first));
    rotated ? load_columns<true>(first, next, rows, count, to)
            : load_columns<false>(first, next, rows, count, to);
  });
}

/// Of the last round of the rotation only magnitudes are needed, and the larger one of a sum and a
/// difference is the sum of the magnitudes.
int32_t rotated_magnitude(const void* from, int64_t stride, DType dtype, int64_t rows,
                          int64_t count) {
  alignas(64) int32_t most[kLanes] = {};
  with_floats(dtype, from, [&](const auto* first) {
    const int64_t next = stride / static_cast<int64_t>(sizeof(*first));
    for_row(count, [&](int64_t c, auto... mask) {
      Rows x;
      load_rows(first + c, next, rows, x, mask...);
      rotate_rounds(x, kRotated / 2);
      alignas(64) float sums[kRotated / 2][kLanes];
#pragma GCC unroll 8
      for (int i = 0; i < kRotated / 2; ++i)
        store(sums[i], add(absolute(x[i]), absolute(x[i + kRotated / 2])));
      for (const auto& sum : sums) {
        for (int i = 0; i < kLanes; ++i) {
          const int32_t bits = magnitude_bits(sum[i]);
          most[i] = bits > most[i] ? bits : most[i];
        }
      }
    });
  });
  int32_t largest = 0;
  for (const int32_t each : most) largest = each > largest ? each : largest;
  return largest;
}

void column_magnitudes(const float* block, int64_t rows, int64_t count, int32_t* most) {
  for (int64_t c = 0; c < count; ++c) most[c] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const float* const row = block + r * kNvfp4Columns;
    for (int64_t c = 0; c < count; ++c) {
      const int32_t bits = magnitude_bits(row[c]);
      most[c] = bits > most[c] ? bits : most[c];
    }
  }
}

void line_magnitudes(const float* block, int64_t rows, int64_t count, int32_t* most) {
  for (int64_t r = 0; r < rows; ++r, most += kNvfp4RowGroups) {
    const float* const row = block + r * kNvfp4Columns;
    for (int64_t c = 0, g = 0; c < count; c += kNvfp4Group, ++g) {
#if !defined(VIADUCT_PORTABLE) && defined(__AVX512F__)
      const Vec x = count - c < kLanes ? load(row + c, first(count - c)) : load(row + c);
      most[g] = _mm512_reduce_max_epi32(
          _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff)));
#else
      const int64_t here = count - c < kNvfp4Group ? count - c : kNvfp4Group;
      most[g] = 0;
      for (int64_t i = c; i < c + here; ++i) {
        const int32_t bits = magnitude_bits(row[i]);
        most[g] = bits > most[g] ? bits : most[g];
      }
#endif
    }
  }
}

void make_scales(const int32_t* most, int64_t count, float matrix_scale, uint8_t* codes,
                 float* divisors) {
  for (int64_t g = 0; g < count; ++g) {
    const float amax = float_of_bits(static_cast<uint32_t>(most[g]));
    codes[g] = encode_e4m3(amax / 6.0f / matrix_scale);
  }
  for (int64_t g = 0; g < count; ++g) {
    const float divisor = decode_e4m3(codes[g]) * matrix_scale;
    divisors[g] = float_of_bits(choose_bits(codes[g] == 0, 0x7f800000u, bits_of_float(divisor)));
  }
}

/// Multiples of 0.5 up to 2, of 1 up to 4, of 2 up to 6.
struct Steps {
  float count;     // of the magnitude
  uint32_t first;  // code of none
  uint32_t sign;   // 8 if negative
};

inline Steps steps_of(float x) {
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
void encode_as(const float* from, const float* divisors, int64_t width, const uint16_t* random,
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

void encode(const float* from, const float* divisors, int64_t width, const uint16_t* random,
            int64_t count, uint8_t* to) {
  random != nullptr ? encode_as<true>(from, divisors, width, random, count, to)
                    : encode_as<false>(from, divisors, width, random, count, to);
}

#else

/// to[c] = the value of column c's group; groups have `width` columns.
inline void spread(const float* of_groups, int64_t width, int64_t count, float* to) {
  for (int64_t c = 0; width == 1 && c < count; ++c) to[c] = of_groups[c];
  for (int64_t c = 0; width > 1 && c < count; ++c) to[c] = of_groups[c / kNvfp4Group];
}

void encode(const float* from, const float* divisors, int64_t width, const uint16_t* random,
            int64_t count, uint8_t* to) {
  alignas(64) float of_columns[kNvfp4Columns];
  alignas(64) uint8_t codes[kNvfp4Columns];
  spread(divisors, width, count, of_columns);
  if (random == nullptr) {
    for (int64_t c = 0; c < count; ++c) {
      const Steps steps = steps_of(from[c] / of_columns[c]);
      codes[c] = static_cast<uint8_t>((steps.first + nearest(steps.count)) | steps.sign);
    }
  } else {
    for (int64_t c = 0; c < count; ++c) {
      const Steps steps = steps_of(from[c] / of_columns[c]);
      const float up = (static_cast<float>(static_cast<int32_t>(random[c])) + 0.5f) * 0x1p-16f;
      const auto whole = static_cast<uint32_t>(static_cast<int32_t>(steps.count + up));
      codes[c] = static_cast<uint8_t>((steps.first + whole) | steps.sign);
    }
  }
  for (int64_t c = 0; c < count / 2; ++c)
    to[c] = static_cast<uint8_t>(codes[2 * c] | codes[2 * c + 1] << 4);
}

#endif

void draw(uint64_t key, uint64_t token, uint64_t first, int64_t count, uint16_t* to) {
  for (int64_t c = 0; c < count; c += 8 * kLanes) {
    Words w[4];
    philox_words(key, token, (first + static_cast<uint64_t>(c)) / 8, w);
    __builtin_memcpy(to + c, w, sizeof(w));
  }
}

void read_scales(const uint8_t* codes, int64_t count, float* to) {
  for (int64_t g = 0; g < count; ++g) to[g] = decode_e4m3(codes[g]);
}

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

void widen(const uint8_t* codes, const float* scales, int64_t width, int64_t count, bfloat16* to) {
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

void widen(const uint8_t* codes, const float* scales, int64_t width, int64_t count, bfloat16* to) {
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

}  // namespace

const Nvfp4Kernels& nvfp4_kernels() {
  static constexpr Nvfp4Kernels kKernels{load_block,
                                         rotated_magnitude,
                                         column_magnitudes,
                                         line_magnitudes,
                                         make_scales,
                                         encode,
                                         draw,
                                         read_scales,
                                         widen};
  return kKernels;
}

}  // namespace viaduct::cpu::VIADUCT_ISA
