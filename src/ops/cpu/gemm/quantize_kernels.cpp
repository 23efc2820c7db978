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

void group_magnitudes(const void* from, DType dtype, int64_t count, int64_t width, int32_t* most) {
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
void encode_groups_as(const void* from, DType dtype, const float* scales, int64_t width,
                      int64_t count, uint8_t* to) {
  encode_row<Bits>(from, dtype, count, to,
                   [=](float x, int64_t c) { return x / scales[c / width]; });
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
void encode_groups_as(const void* from, DType dtype, const float* scales, int64_t width,
                      int64_t count, uint8_t* to) {
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

#endif

void encode(const void* from, DType dtype, float scale, int64_t count, DType element, uint8_t* to) {
  element == DType::e4m3 ? encode_as<E4m3Bits>(from, dtype, scale, count, to)
                         : encode_as<E5m2Bits>(from, dtype, scale, count, to);
}

void encode_groups(const void* from, DType dtype, const float* scales, int64_t width, int64_t count,
                   DType element, uint8_t* to) {
  element == DType::e4m3 ? encode_groups_as<E4m3Bits>(from, dtype, scales, width, count, to)
                         : encode_groups_as<E5m2Bits>(from, dtype, scales, width, count, to);
}

#if !defined(VIADUCT_PORTABLE) && defined(__AVX512F__)

/// The scales of 16 columns from c on, of which the mask has those that are there.
inline Vec scales_at(const float* scales, int64_t width, int64_t c, Mask m) {
  return width == 1 ? load(scales + c, m) : set1(scales[c / width]);
}

template <class Bits>
void widen_as(const uint8_t* codes, const float* scales, int64_t width, int64_t count,
              bfloat16* to) {
  const CodeTable<Bits> table;
  for (int64_t c = 0; c < count; c += 32) {
    const int64_t here = count - c < 32 ? count - c : 32;
    const auto there = static_cast<__mmask32>(0xffffffffu >> (32 - here));
    const __m512i values = table.load(codes + c, there);
    if (scales == nullptr) {
      _mm512_mask_storeu_epi16(to + c, there, values);
      continue;
    }
    const auto low = static_cast<Mask>(there), high = static_cast<Mask>(there >> 16);
    const Vec first = widen_bf16(_mm512_castsi512_si256(values));
    store(to + c, mul(first, scales_at(scales, width, c, low)), low);
    if (high == 0) continue;
    const Vec second = widen_bf16(_mm512_extracti64x4_epi64(values, 1));
    store(to + c + 16, mul(second, scales_at(scales, width, c + 16, high)), high);
  }
}

#else

template <class Bits>
void widen_as(const uint8_t* codes, const float* scales, int64_t width, int64_t count,
              bfloat16* to) {
  alignas(64) float row[kQuantizeColumns];
  for (int64_t c = 0; c < count; ++c) row[c] = Bits::decode(codes[c]);
  if (scales != nullptr && width == 1)
    for (int64_t c = 0; c < count; ++c) row[c] *= scales[c];
  for (int64_t begin = 0; scales != nullptr && width > 1 && begin < count; begin += width) {
    const float scale = scales[begin / width];
    const int64_t end = begin + width < count ? begin + width : count;
    for (int64_t c = begin; c < end; ++c) row[c] *= scale;
  }
  for_row(count, [&](int64_t i, auto... mask) { store(to + i, load(row + i, mask...), mask...); });
}

#endif

void widen(const uint8_t* codes, DType element, const float* scales, int64_t width, int64_t count,
           bfloat16* to) {
  element == DType::e4m3 ? widen_as<E4m3Bits>(codes, scales, width, count, to)
                         : widen_as<E5m2Bits>(codes, scales, width, count, to);
}

}  // namespace

const QuantizeKernels& quantize_kernels() {
  static constexpr QuantizeKernels kKernels{magnitudes, group_magnitudes, powers,
                                            encode,     encode_groups,    widen};
  return kKernels;
}

}  // namespace viaduct::cpu::VIADUCT_ISA
