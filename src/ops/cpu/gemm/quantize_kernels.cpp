// instruction sets: portable avx2 avx512
// Kernels of quantized operands, compiled per instruction set. What is not in vectors by hand is a
// plain loop without branches, which the compiler turns into vectors.

#include "ops/cpu/gemm/quantize_kernels.h"

#include "ops/cpu/simd/simd_codes.h"
#include "ops/cpu/simd/simd_rows.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

template <class T>
void widen_row(const void* from, int64_t count, float* to) {
  const T* row = static_cast<const T*>(from);
  for_row(count, [&](int64_t i, auto... mask) { store(to + i, load(row + i, mask...), mask...); });
}

/// The row as FP32: itself, or widened into `memory`.
const float* as_floats(const void* from, DType dtype, int64_t count, float* memory) {
  if (dtype == DType::f32) return static_cast<const float*>(from);
  dtype == DType::bf16 ? widen_row<bfloat16>(from, count, memory)
                       : widen_row<float16>(from, count, memory);
  return memory;
}

void magnitudes(const void* from, DType dtype, int64_t count, int32_t* most) {
  if (dtype == DType::bf16) {  // the upper half of FP32's bits
    const auto* const row = static_cast<const uint16_t*>(from);
    for (int64_t c = 0; c < count; ++c) {
      const int32_t bits = (row[c] & 0x7fff) << 16;
      most[c] = bits > most[c] ? bits : most[c];
    }
    return;
  }
  alignas(64) float memory[kQuantizeColumns];
  const float* row = as_floats(from, dtype, count, memory);
  for (int64_t c = 0; c < count; ++c) {
    const auto bits = static_cast<int32_t>(bits_of_float(row[c]) & 0x7fffffffu);
    most[c] = bits > most[c] ? bits : most[c];
  }
}

/// Of `count` elements. BF16 is compared directly: its bits are the upper half of FP32's.
int32_t largest_of(const void* from, DType dtype, int64_t offset, int64_t count) {
  if (dtype == DType::bf16) {
    const auto* row = static_cast<const uint16_t*>(from) + offset;
    uint16_t most = 0;
    for (int64_t c = 0; c < count; ++c) {
      const auto bits = static_cast<uint16_t>(row[c] & 0x7fffu);
      most = bits > most ? bits : most;
    }
    return static_cast<int32_t>(static_cast<uint32_t>(most) << 16);
  }
  alignas(64) float memory[kQuantizeColumns];
  const float* row = as_floats(
      dtype == DType::f32 ? static_cast<const void*>(static_cast<const float*>(from) + offset)
                          : static_cast<const uint16_t*>(from) + offset,
      dtype, count, memory);
  int32_t most = 0;
  for (int64_t c = 0; c < count; ++c) {
    const auto bits = static_cast<int32_t>(bits_of_float(row[c]) & 0x7fffffffu);
    most = bits > most ? bits : most;
  }
  return most;
}

#if !defined(VIADUCT_PORTABLE) && defined(__AVX512F__)

/// largest_of, for BF16. The largest of eight words is the least of their complements, for which
/// there is an instruction.
inline int32_t largest_of_bf16(const uint16_t* row, int64_t count) {
  const __m512i magnitude = _mm512_set1_epi16(0x7fff);
  __m512i most = _mm512_setzero_si512();
  for (int64_t c = 0; c < count; c += 32) {
    const auto there =
        static_cast<__mmask32>(count - c < 32 ? (1u << (count - c)) - 1u : 0xffffffffu);
    most = _mm512_max_epu16(most,
                            _mm512_and_si512(_mm512_maskz_loadu_epi16(there, row + c), magnitude));
  }
  const __m256i half =
      _mm256_max_epu16(_mm512_castsi512_si256(most), _mm512_extracti64x4_epi64(most, 1));
  const __m128i quarter =
      _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  const __m128i least = _mm_minpos_epu16(_mm_xor_si128(quarter, _mm_set1_epi16(-1)));
  return static_cast<int32_t>((~static_cast<uint32_t>(_mm_cvtsi128_si32(least)) & 0x7fffu) << 16);
}

#endif

void group_magnitudes(const void* from, DType dtype, int64_t count, int64_t width, int32_t* most) {
#if !defined(VIADUCT_PORTABLE) && defined(__AVX512F__)
  if (dtype == DType::bf16) {
    const auto* const row = static_cast<const uint16_t*>(from);
    for (int64_t c = 0; c < count; c += width)
      *most++ = largest_of_bf16(row + c, count - c < width ? count - c : width);
    return;
  }
#endif
  for (int64_t c = 0; c < count; c += width)
    *most++ = largest_of(from, dtype, c, count - c < width ? count - c : width);
}

void powers(const int32_t* most, int64_t count, float largest, float* scales) {
  for (int64_t g = 0; g < count; ++g) {
    const auto bits = static_cast<uint32_t>(most[g]);
    // The smallest power of two that is at least this, but not below 2^-127, a subnormal number.
    const uint32_t least = bits_of_float(float_of_bits(bits) / largest);
    const uint32_t exponent = least >> 23, mantissa = least & 0x7fffffu;
    const uint32_t border = choose_bits(exponent == 0, 0x400000u, 0u);
    const uint32_t power = exponent + (mantissa > border ? 1u : 0u);
    uint32_t scale = choose_bits(power == 0, 0x400000u, power << 23);
    scale = choose_bits(bits == 0, 0x3f800000u, scale);
    scales[g] = float_of_bits(choose_bits(bits >= 0x7f800000u, 0x7fc00000u, scale));
  }
}

#if defined(VIADUCT_PORTABLE)

/// to[c] = the code of `scaled(value, c)`.
template <class Bits, class F>
void encode_row(const void* from, DType dtype, int64_t count, uint8_t* to, F&& scaled) {
  alignas(64) float memory[kQuantizeColumns];
  const float* row = as_floats(from, dtype, count, memory);
  for (int64_t c = 0; c < count; ++c) to[c] = Bits::encode(scaled(row[c], c));
}

template <class Bits>
void encode_as(const void* from, DType dtype, float scale, int64_t count, uint8_t* to) {
  encode_row<Bits>(from, dtype, count, to, [=](float x, int64_t) { return x / scale; });
}

template <class Bits>
void encode_groups_as(const void* from, DType dtype, const GroupScales& groups, int64_t count,
                      uint8_t* to) {
  encode_row<Bits>(from, dtype, count, to,
                   [&](float x, int64_t c) { return x / groups.scales[c / groups.width]; });
}

#else

template <class Bits>
void encode_as(const void* from, DType dtype, float scale, int64_t count, uint8_t* to) {
  const Vec divisor = set1(scale);
  with_floats(dtype, from, [&](const auto* row) {
    for_row(count, [&](int64_t i, auto... mask) {
      store_codes<Bits>(to + i, div(load(row + i, mask...), divisor), mask...);
    });
  });
}

/// The inverse of a power of two is exact, and a product with it is what the division is.
template <class Bits>
void encode_scaled(const void* from, DType dtype, const GroupScales& groups, int64_t count,
                   uint8_t* to) {
  const int64_t width = groups.width;
  const float* const scales = groups.scales;
  with_floats(dtype, from, [&](const auto* row) {
    if (width == 1) {
      for_row(count, [&](int64_t i, auto... mask) {
        store_codes<Bits>(to + i, div(load(row + i, mask...), load(scales + i, mask...)), mask...);
      });
      return;
    }
    for (int64_t begin = 0; begin < count; begin += width) {
      const Vec inverse = set1(1.0f / scales[begin / width]);
      const int64_t here = count - begin < width ? count - begin : width;
      for_row(here, [&](int64_t i, auto... mask) {
        store_codes<Bits>(to + begin + i, mul(load(row + begin + i, mask...), inverse), mask...);
      });
    }
  });
}

#if defined(__AVX512F__)

/// Calls body(c, there, group) for each 32 columns, or fewer, that share a scale or have one each:
/// `there` are those that exist, `group` is the first one's.
template <class Body>
inline void for_groups(int64_t width, int64_t count, Body&& body) {
  const auto mask = [](int64_t n) {
    return static_cast<__mmask32>(n < 32 ? (1u << n) - 1u : 0xffffffffu);
  };
  if (width == 1) {
    for (int64_t c = 0; c < count; c += 32) body(c, mask(count - c), c);
    return;
  }
  for (int64_t begin = 0, group = 0; begin < count; begin += width, ++group) {
    const int64_t end = count - begin < width ? count : begin + width;
    for (int64_t c = begin; c < end; c += 32) body(c, mask(end - c), group);
  }
}

inline __m512i exponents_at(const GroupScales& groups, int64_t group, __mmask32 there) {
  return groups.width == 1 ? _mm512_maskz_loadu_epi16(there, groups.exponents + group)
                           : _mm512_set1_epi16(groups.exponents[group]);
}

/// BF16 numbers whose quotient is a normal code are rounded as the whole numbers that their bits
/// are, 32 at a time. `rare` encodes those among which is another number than zero.
template <class Bits, class Rare>
inline void encode_normal(const uint16_t* row, const GroupScales& groups, int64_t count,
                          uint8_t* to, Rare&& rare) {
  constexpr int kDropped = Bits::kShift - 16;
  constexpr int kLeastNormal = Bits::kNormal >> 16;
  const __m512i magnitude_bits = _mm512_set1_epi16(0x7fff), one = _mm512_set1_epi16(1);
  const __m512i upward = _mm512_set1_epi16(kBf16Exponent + static_cast<int>(Bits::kHalf >> 16));
  const __m512i most = _mm512_set1_epi16(static_cast<int16_t>(Bits::kMost));
  for_groups(groups.width, count, [&](int64_t c, __mmask32 there, int64_t group) {
    const __m512i x = _mm512_maskz_loadu_epi16(there, row + c);
    const __m512i magnitude = _mm512_and_si512(x, magnitude_bits);
    const __m512i least = _mm512_add_epi16(exponents_at(groups, group, there),
                                           _mm512_set1_epi16(static_cast<int16_t>(kLeastNormal)));
    const __m512i above = _mm512_sub_epi16(magnitude, least);
    const __mmask32 not_zero = _mm512_test_epi16_mask(magnitude, magnitude);
    const __m512i normal = _mm512_sub_epi16(_mm512_set1_epi16(0x7f80), least);
    if (_mm512_mask_cmpge_epu16_mask(not_zero, above, normal) != 0) return rare(c, there);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi16(above, kDropped), one);
    const __m512i rounded = _mm512_add_epi16(_mm512_add_epi16(above, upward), odd);
    const __m512i code =
        _mm512_maskz_min_epu16(not_zero, _mm512_srli_epi16(rounded, kDropped), most);
    const __m512i sign = _mm512_and_si512(_mm512_srli_epi16(x, 8), _mm512_set1_epi16(0x80));
    _mm256_mask_storeu_epi8(to + c, there, _mm512_cvtepi16_epi8(_mm512_or_si512(code, sign)));
  });
}

template <class Bits>
void encode_groups_as(const void* from, DType dtype, const GroupScales& groups, int64_t count,
                      uint8_t* to) {
  if (dtype != DType::bf16 || groups.exponents == nullptr)
    return encode_scaled<Bits>(from, dtype, groups, count, to);
  const auto* const row = static_cast<const uint16_t*>(from);
  encode_normal<Bits>(row, groups, count, to, [&](int64_t c, __mmask32 there) {
    GroupScales here = groups;
    here.scales += c / groups.width;
    encode_scaled<Bits>(row + c, dtype, here, __builtin_popcount(there), to + c);
  });
}

#else

template <class Bits>
void encode_groups_as(const void* from, DType dtype, const GroupScales& groups, int64_t count,
                      uint8_t* to) {
  encode_scaled<Bits>(from, dtype, groups, count, to);
}

#endif

#endif

void encode(const void* from, DType dtype, float scale, int64_t count, DType element, uint8_t* to) {
  element == DType::e4m3 ? encode_as<E4m3Bits>(from, dtype, scale, count, to)
                         : encode_as<E5m2Bits>(from, dtype, scale, count, to);
}

void encode_groups(const void* from, DType dtype, const GroupScales& groups, int64_t count,
                   DType element, uint8_t* to) {
  element == DType::e4m3 ? encode_groups_as<E4m3Bits>(from, dtype, groups, count, to)
                         : encode_groups_as<E5m2Bits>(from, dtype, groups, count, to);
}

#if !defined(VIADUCT_PORTABLE) && defined(__AVX512F__)

template <class Bits>
void widen_as(const uint8_t* codes, int64_t count, bfloat16* to) {
  const CodeTable<Bits> table;
  for_groups(count, count, [&](int64_t c, __mmask32 there, int64_t) {
    _mm512_mask_storeu_epi16(to + c, there, table.load(codes + c, there));
  });
}

/// All numbers but zero and those that are not finite get the exponent that they have with the
/// scale.
template <class Bits>
inline void widen_exponents(const uint8_t* codes, const GroupScales& groups, int64_t count,
                            bfloat16* to) {
  const CodeTable<Bits> table;
  for_groups(groups.width, count, [&](int64_t c, __mmask32 there, int64_t group) {
    const __m512i values = table.load(codes + c, there);
    const __m512i magnitude = _mm512_and_si512(values, _mm512_set1_epi16(0x7fff));
    const __mmask32 finite = _mm512_cmplt_epu16_mask(
        _mm512_sub_epi16(magnitude, _mm512_set1_epi16(1)), _mm512_set1_epi16(0x7f7f));
    _mm512_mask_storeu_epi16(
        to + c, there,
        _mm512_mask_add_epi16(values, finite, values, exponents_at(groups, group, there)));
  });
}

template <class Bits>
void widen_groups_as(const uint8_t* codes, const GroupScales& groups, int64_t count, bfloat16* to) {
  if (groups.exponents != nullptr) return widen_exponents<Bits>(codes, groups, count, to);
  const CodeTable<Bits> table;
  for_groups(groups.width, count, [&](int64_t c, __mmask32 there, int64_t group) {
    const __m512i values = table.load(codes + c, there);
    const auto low = static_cast<Mask>(there), high = static_cast<Mask>(there >> 16);
    const auto scales = [&](int64_t column, Mask m) {
      return groups.width == 1 ? load(groups.scales + column, m) : set1(groups.scales[group]);
    };
    store(to + c, mul(widen_bf16(_mm512_castsi512_si256(values)), scales(c, low)), low);
    if (high == 0) return;
    const Vec upper = widen_bf16(_mm512_extracti64x4_epi64(values, 1));
    store(to + c + 16, mul(upper, scales(c + 16, high)), high);
  });
}

#else

void store_numbers(const float* row, int64_t count, bfloat16* to) {
  for_row(count, [&](int64_t i, auto... mask) { store(to + i, load(row + i, mask...), mask...); });
}

template <class Bits>
void widen_as(const uint8_t* codes, int64_t count, bfloat16* to) {
  alignas(64) float row[kQuantizeColumns];
  for (int64_t c = 0; c < count; ++c) row[c] = Bits::decode(codes[c]);
  store_numbers(row, count, to);
}

template <class Bits>
void widen_groups_as(const uint8_t* codes, const GroupScales& groups, int64_t count, bfloat16* to) {
  alignas(64) float row[kQuantizeColumns];
  for (int64_t c = 0; c < count; ++c) row[c] = Bits::decode(codes[c]);
  if (groups.width == 1)
    for (int64_t c = 0; c < count; ++c) row[c] *= groups.scales[c];
  for (int64_t begin = 0; groups.width > 1 && begin < count; begin += groups.width) {
    const float scale = groups.scales[begin / groups.width];
    const int64_t end = begin + groups.width < count ? begin + groups.width : count;
    for (int64_t c = begin; c < end; ++c) row[c] *= scale;
  }
  store_numbers(row, count, to);
}

#endif

void widen(const uint8_t* codes, DType element, int64_t count, bfloat16* to) {
  element == DType::e4m3 ? widen_as<E4m3Bits>(codes, count, to)
                         : widen_as<E5m2Bits>(codes, count, to);
}

void widen_groups(const uint8_t* codes, DType element, const GroupScales& groups, int64_t count,
                  bfloat16* to) {
  element == DType::e4m3 ? widen_groups_as<E4m3Bits>(codes, groups, count, to)
                         : widen_groups_as<E5m2Bits>(codes, groups, count, to);
}

}  // namespace

const QuantizeKernels& quantize_kernels() {
  static constexpr QuantizeKernels kKernels{
      magnitudes, group_magnitudes, powers, encode, encode_groups, widen, widen_groups};
  return kKernels;
}

}  // namespace viaduct::cpu::VIADUCT_ISA
