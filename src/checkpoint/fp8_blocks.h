#pragma once
// Weights as FP8 with a scale for each block of 128 × 128 elements, in the form of Hugging Face's
// "fp8" quantization and DeepSeek-V3 (DeepSeek-AI 2024, section 3.3.2): X.weight holds E4M3 codes,
// X.weight_scale_inv the FP32 factor of each block; a weight is code × factor.

#include <nlohmann/json_fwd.hpp>

#include "checkpoint/round_tensor.h"

namespace viaduct {

/// Rows and columns of a block.
inline constexpr int64_t kFp8Block = 128;

/// Factors [ceil(rows / 128), ceil(columns / 128)] of a floating matrix: a block's largest
/// magnitude / 448, rounded to FP32; 1 for a block of zeros. IoError that names the tensor if an
/// element is not finite: E4M3 has no infinity, and one NaN would spoil a whole block.
Tensor fp8_block_scales(const Tensor& matrix, const std::string& name);

/// The codes, e4m3: element / factor in FP32, rounded to nearest even. `total` counts how codes ×
/// factors differ from the elements.
Tensor fp8_block_codes(const Tensor& matrix, const std::string& name, Rounding& total);

/// "quantization_config" of a config.json whose matrices are stored in this form, except the
/// modules `unchanged`.
nlohmann::ordered_json fp8_block_config(const std::vector<std::string>& unchanged);

}  // namespace viaduct
