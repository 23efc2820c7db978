#pragma once
// Values of the number formats that the double reads and writes.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "cublasLt.h"
#include "cuda_host/small_floats.h"

namespace cublaslt_double {

using cuda_host::e4m3_value;
using cuda_host::e5m2_value;
using cuda_host::small_float;

inline float e8m0_value(uint8_t code) {
  if (code == 255) return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0f, int{code} - 127);
}

/// Element `index` of a matrix at `data`.
inline float read_element(const void* data, cudaDataType_t type, int64_t index) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  switch (type) {
    case CUDA_R_32F:
      return static_cast<const float*>(data)[index];
    case CUDA_R_16BF:
      return std::bit_cast<float>(uint32_t{static_cast<const uint16_t*>(data)[index]} << 16);
    case CUDA_R_16F:
      return static_cast<float>(static_cast<const _Float16*>(data)[index]);
    case CUDA_R_8F_E4M3:
      return e4m3_value(bytes[index]);
    case CUDA_R_8F_E5M2:
      return e5m2_value(bytes[index]);
    case CUDA_R_4F_E2M1:
      return small_float(index % 2 == 0 ? bytes[index / 2] & 15u : bytes[index / 2] >> 4, 2, 1, 1);
  }
  return std::numeric_limits<float>::quiet_NaN();
}

/// Rounds to nearest even.
inline void write_element(void* data, cudaDataType_t type, int64_t index, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[index] = value;
  } else if (type == CUDA_R_16F) {
    static_cast<_Float16*>(data)[index] = static_cast<_Float16>(value);
  } else {
    auto bits = std::bit_cast<uint32_t>(value);
    bits = std::isnan(value) ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
    static_cast<uint16_t*>(data)[index] = static_cast<uint16_t>(bits >> 16);
  }
}

inline int bits_of(cudaDataType_t type) {
  if (type == CUDA_R_32F) return 32;
  if (type == CUDA_R_4F_E2M1) return 4;
  return type == CUDA_R_16F || type == CUDA_R_16BF ? 16 : 8;
}

}  // namespace cublaslt_double
