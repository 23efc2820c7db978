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

inline void rotate(Rows& x) {
  for (int i = 0; i < kRotated; ++i) x[i] = mul(x[i], set1(kRotationSigns[i] * 0.25f));
#pragma GCC unroll 4
  for (int apart = 1; apart < kRotated; apart *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < kRotated; ++i) {
      if ((i & apart) != 0) continue;
      const Vec sum = add(x[i], x[i + apart]), difference = sub(x[i], x[i + apart]);
      x[i] = sum;
      x[i + apart] = difference;
    }
  }
}

void load_block(const void* from, int64_t stride, DType dtype, int64_t rows, int64_t count,
                bool rotated, float* to) {
  with_floats(dtype, from, [&](const auto* first) {
    const int64_t next = stride / static_cast<int64_t>(sizeof(*first));
    for_row(count, [&](int64_t c, auto... mask) {
      Rows x;
#pragma GCC unroll 16
      for (int r = 0; r < kRotated; ++r)
        x[r] = r < rows ? load(first + r * next + c, mask...) : zero();
      if (rotated) rotate(x);
#pragma GCC unroll 16
      for (int r = 0; r < kRotated; ++r) store(to + r * kNvfp4Columns + c, x[r], mask...);
    });
  });
}

/// In this order of bits, NaN is above infinity and infinity above all numbers.
inline int32_t magnitude_bits(float x) {
  return static_cast<int32_t>(bits_of_float(x) & 0x7fffffffu);
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

/// In place of floor and nearbyint: a sum with 2^23 is a whole number in its low bits, rounded to
/// nearest even.
inline uint32_t nearest(float steps) {
  return bits_of_float(steps + 0x1p23f) & 0xfu;
}

#if !defined(VIADUCT_PORTABLE) && defined(__AVX512F__)

/// steps_of, and the code: `random` null for nearest even. A code in each 32 bits.
inline __m512i code_words(Vec x, const uint16_t* random, Mask m) {
  const auto all = [](uint32_t value) { return _mm512_set1_epi32(static_cast<int>(value)); };
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i magnitude = _mm512_and_si512(bits, all(0x7fffffffu));
  const __mmask16 number = _mm512_cmple_epu32_mask(magnitude, all(0x7f800000u));
  const __m512i least = _mm512_min_epu32(magnitude, all(0x40c00000u));
  const __mmask16 below2 = _mm512_cmplt_epu32_mask(least, all(0x40000000u)),
                  below4 = _mm512_cmplt_epu32_mask(least, all(0x40800000u));
  const __m512i per_step = _mm512_mask_mov_epi32(
      _mm512_mask_mov_epi32(all(0x3f000000u), below4, all(0x3f800000u)), below2, all(0x40000000u));
  const __m512i first =
      _mm512_mask_mov_epi32(_mm512_mask_mov_epi32(all(4), below4, all(2)), below2, all(0));
  const Vec steps =
      _mm512_maskz_mul_ps(number, _mm512_castsi512_ps(least), _mm512_castsi512_ps(per_step));
  __m512i whole;
  if (random == nullptr) {
    whole = _mm512_and_si512(_mm512_castps_si512(add(steps, set1(0x1p23f))), all(0xfu));
  } else {
    const __m512i drawn = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, random));
    const Vec up = mul(add(_mm512_cvtepi32_ps(drawn), set1(0.5f)), set1(0x1p-16f));
    whole = _mm512_cvttps_epi32(add(steps, up));
  }
  const __m512i sign = _mm512_mask_and_epi32(all(8), number, _mm512_srli_epi32(bits, 28), all(8));
  return _mm512_or_si512(_mm512_add_epi32(_mm512_maskz_mov_epi32(number, first), whole), sign);
}

/// What belongs to 16 columns from c on, of which `m` has those that are there: one value for all
/// of them (width 16), or one for each (1).
inline Vec of_columns(const float* values, int64_t width, int64_t c, Mask m) {
  return width == 1 ? load(values + c, m) : set1(values[c / kNvfp4Group]);
}

void encode(const float* from, const float* divisors, int64_t width, const uint16_t* random,
            int64_t count, uint8_t* to) {
  for (int64_t c = 0; c < count; c += kLanes) {
    const Mask m = count - c < kLanes ? first(count - c) : static_cast<Mask>(0xffff);
    const __m512i codes = code_words(div(load(from + c, m), of_columns(divisors, width, c, m)),
                                     random == nullptr ? nullptr : random + c, m);
    // In each 64 bits the even element is below the odd one, 28 bits beside its place.
    const __m128i bytes =
        _mm512_cvtepi64_epi8(_mm512_or_si512(codes, _mm512_srli_epi64(codes, 28)));
    const int64_t pairs = count - c < kLanes ? (count - c) / 2 : kLanes / 2;
    _mm_mask_storeu_epi8(to + c / 2, static_cast<__mmask16>((1u << pairs) - 1u), bytes);
  }
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

/// A product of 2 and 4 significant bits: rounding to BF16 cuts off zeros.
inline __m256i cut_product(__m256i numbers, Vec scales) {
  const __m512i product = _mm512_castps_si512(mul(widen_bf16(numbers), scales));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(product, 16));
}

void widen(const uint8_t* codes, const float* scales, int64_t width, int64_t count, bfloat16* to) {
  const __m512i numbers = _mm512_load_si512(kNumbers.of);
  for (int64_t c = 0; c < count; c += 32) {
    const int64_t here = count - c < 32 ? count - c : 32;
    const auto there = static_cast<__mmask32>(0xffffffffu >> (32 - here));
    const auto low = static_cast<Mask>(there), high = static_cast<Mask>(there >> 16);
    const auto pairs = static_cast<__mmask16>((1u << here / 2) - 1u);
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(pairs, codes + c / 2));
    const __m512i apart = _mm512_and_si512(_mm512_or_si512(bytes, _mm512_slli_epi32(bytes, 12)),
                                           _mm512_set1_epi32(0x000f000f));
    const __m512i values = _mm512_permutexvar_epi16(apart, numbers);
    _mm256_mask_storeu_epi16(
        to + c, low,
        cut_product(_mm512_castsi512_si256(values), of_columns(scales, width, c, low)));
    if (high == 0) continue;
    _mm256_mask_storeu_epi16(
        to + c + 16, high,
        cut_product(_mm512_extracti64x4_epi64(values, 1), of_columns(scales, width, c + 16, high)));
  }
}

#else

void widen(const uint8_t* codes, const float* scales, int64_t width, int64_t count, bfloat16* to) {
  alignas(64) uint8_t apart[kNvfp4Columns];
  alignas(64) float of_columns[kNvfp4Columns];
  spread(scales, width, count, of_columns);
  for (int64_t c = 0; c < count / 2; ++c) {
    apart[2 * c] = codes[c] & 15u;
    apart[2 * c + 1] = codes[c] >> 4;
  }
  // A product of 2 and 4 significant bits: rounding to BF16 cuts off zeros.
  auto* const out = reinterpret_cast<uint16_t*>(to);
  for (int64_t c = 0; c < count; ++c)
    out[c] = static_cast<uint16_t>(bits_of_float(decode_e2m1(apart[c]) * of_columns[c]) >> 16);
}

#endif

}  // namespace

const Nvfp4Kernels& nvfp4_kernels() {
  static constexpr Nvfp4Kernels kKernels{
      load_block, column_magnitudes, line_magnitudes, make_scales, encode, draw, read_scales,
      widen};
  return kKernels;
}

}  // namespace viaduct::cpu::VIADUCT_ISA
