// instruction sets: portable avx2 avx512
// NF4 codes and their values, compiled per instruction set. A block of 64 elements fits registers
// and L1: it is widened to floats first, and its loops are such that the compiler vectorizes them.

#include "ops/cpu/rows/nf4_kernels.h"

#include <bit>

#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/simd_rows.h"
#include "tensor/nf4.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// The levels of both codes of a byte.
struct LevelPairs {
  float level[256][2];
};

constexpr LevelPairs level_pairs() {
  LevelPairs pairs{};
  for (size_t byte = 0; byte < 256; ++byte) {
    pairs.level[byte][0] = kNf4Levels[byte >> 4];
    pairs.level[byte][1] = kNf4Levels[byte & 15];
  }
  return pairs;
}

constexpr LevelPairs kPairs = level_pairs();

float quantize(const void* values, DType dtype, int64_t count, uint8_t* codes) {
  alignas(64) float block[kNf4Block] = {};
  with_floats(dtype, values, [&](const auto* in) {
    for_row(count,
            [&](int64_t i, auto... tail) { store(block + i, load(in + i, tail...), tail...); });
  });
  // Bits of magnitudes order as the values do; NaN is above infinity.
  int32_t largest = 0;
  for (int64_t i = 0; i < kNf4Block; ++i) {
    const int32_t magnitude = std::bit_cast<int32_t>(block[i]) & 0x7fffffff;
    largest = magnitude > largest ? magnitude : largest;
  }
  const auto absmax = std::bit_cast<float>(largest);
  const float factor = absmax == 0 ? 0 : 1 / absmax;
  for (int64_t i = 0; i < kNf4Block; ++i) {
    const float v = block[i] * factor;
    block[i] = v < -1.0f ? -1.0f : v > 1.0f ? 1.0f : v;
  }
  int32_t code[kNf4Block] = {};
  for (const float midpoint : kNf4Midpoints)
    for (int64_t i = 0; i < kNf4Block; ++i) code[i] += block[i] > midpoint ? 1 : 0;
  for (int64_t i = 0; i + 1 < count; i += 2)
    codes[i / 2] = static_cast<uint8_t>(code[i] << 4 | code[i + 1]);
  if (count % 2 != 0) codes[count / 2] = static_cast<uint8_t>(code[count - 1] << 4);
  return absmax;
}

void dequantize(const uint8_t* codes, int64_t count, float absmax, void* out, DType dtype) {
  alignas(64) float block[kNf4Block];
  for (int64_t i = 0; i < (count + 1) / 2; ++i) {
    block[2 * i] = kPairs.level[codes[i]][0] * absmax;
    block[2 * i + 1] = kPairs.level[codes[i]][1] * absmax;
  }
  with_floats(dtype, out, [&](auto* to) {
    for_row(count,
            [&](int64_t i, auto... tail) { store(to + i, load(block + i, tail...), tail...); });
  });
}

}  // namespace

const Nf4Kernels nf4_kernels{quantize, dequantize};

}  // namespace viaduct::cpu::VIADUCT_ISA
