// instruction sets: portable avx2 avx512
// Kernels of quantized operands, compiled per instruction set. Conversions of codes are plain loops
// without branches, which the compiler turns into vectors.

#include "ops/cpu/gemm/quantize_kernels.h"
#include "ops/cpu/simd/simd_float8.h"
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

void encode(const void* from, DType dtype, const float* scales, int64_t count, DType element,
            uint8_t* to) {
  alignas(64) float memory[kQuantizeColumns];
  const float* row = as_floats(from, dtype, count, memory);
  if (element == DType::e4m3) {
    for (int64_t c = 0; c < count; ++c) to[c] = encode_e4m3(row[c] / scales[c]);
  } else {
    for (int64_t c = 0; c < count; ++c) to[c] = encode_e5m2(row[c] / scales[c]);
  }
}

void widen(const uint8_t* codes, DType element, const float* scales, int64_t count, bfloat16* to) {
  alignas(64) float row[kQuantizeColumns];
  if (element == DType::e4m3) {
    for (int64_t c = 0; c < count; ++c) row[c] = decode_e4m3(codes[c]);
  } else {
    for (int64_t c = 0; c < count; ++c) row[c] = decode_e5m2(codes[c]);
  }
  if (scales != nullptr)
    for (int64_t c = 0; c < count; ++c) row[c] *= scales[c];
  for_row(count, [&](int64_t i, auto... mask) { store(to + i, load(row + i, mask...), mask...); });
}

}  // namespace

const QuantizeKernels& quantize_kernels() {
  static constexpr QuantizeKernels kKernels{magnitudes, encode, widen};
  return kKernels;
}

}  // namespace viaduct::cpu::VIADUCT_ISA
