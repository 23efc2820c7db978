#pragma once
// Formats of numbers as settings name them; a field has those that its owner lists.

#include <array>
#include <string_view>

#include "tensor/dtype.h"

namespace viaduct {

enum class NumberFormat { fp64, fp32, bf16, fp16, fp8 };
constexpr auto choice_names(NumberFormat) {
  return std::to_array<std::string_view>({"fp64", "fp32", "bf16", "fp16", "fp8"});
}

constexpr DType format_dtype(NumberFormat format) {
  switch (format) {
    case NumberFormat::fp64:
      return DType::f64;
    case NumberFormat::fp32:
      return DType::f32;
    case NumberFormat::bf16:
      return DType::bf16;
    case NumberFormat::fp16:
      return DType::f16;
    case NumberFormat::fp8:
      return DType::e4m3;
  }
  return DType::f32;
}

}  // namespace viaduct
