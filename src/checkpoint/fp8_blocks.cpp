#include "checkpoint/fp8_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "tensor/number_formats.h"

namespace viaduct {
namespace {

constexpr float kLargestCode = 448;

int64_t blocks(int64_t elements) {
  return (elements + kFp8Block - 1) / kFp8Block;
}

/// Index in the factors of element `i` of a matrix with this many columns.
int64_t block_of(int64_t i, int64_t columns) {
  return i / columns / kFp8Block * blocks(columns) + i % columns / kFp8Block;
}

}  // namespace

Tensor fp8_block_scales(const Tensor& matrix, const std::string& name) {
  VIADUCT_CHECK(ShapeError, matrix.rank() == 2 && is_floating(matrix.dtype()),
                "tensor \"{}\": {} is not a floating matrix", shown_name(name), describe(matrix));
  const int64_t columns = matrix.dim(1);
  Tensor scales = host_tensor(DType::f32, {blocks(matrix.dim(0)), blocks(columns)});
  auto* scale = scales.data<float>();
  int64_t not_finite = 0;
  for_each_value(matrix, [&](int64_t i, double value) {
    const auto magnitude = static_cast<float>(std::fabs(value));
    if (!std::isfinite(magnitude)) ++not_finite;
    float& largest = scale[block_of(i, columns)];
    largest = std::max(largest, magnitude);
  });
  VIADUCT_CHECK(IoError, not_finite == 0,
                "tensor \"{}\": {} of its {} elements {} not finite, which fp8 cannot store",
                shown_name(name), not_finite, matrix.elements(), not_finite == 1 ? "is" : "are");
  for (int64_t i = 0; i < scales.elements(); ++i)
    scale[i] =
        scale[i] == 0 ? 1 : std::max(scale[i] / kLargestCode, std::numeric_limits<float>::min());
  return scales;
}

Tensor fp8_block_codes(const Tensor& matrix, const std::string& name, Rounding& total) {
  const Tensor scales = fp8_block_scales(matrix, name);
  const auto* scale = scales.data<float>();
  Tensor codes = host_tensor(DType::e4m3, matrix.shape());
  auto* code = codes.data<float8_e4m3>();
  const int64_t columns = matrix.dim(1);
  std::array<double, 256> decoded{};
  for (size_t bits = 0; bits < decoded.size(); ++bits)
    decoded[bits] = float8_e4m3::Codes::decode(static_cast<uint8_t>(bits));
  RoundingCount count(name, "fp8");
  for_each_value(matrix, [&](int64_t i, double value) {
    const float factor = scale[block_of(i, columns)];
    code[i] = float8_e4m3(static_cast<float>(value) / factor);
    count.add(value, decoded[code[i].bits] * static_cast<double>(factor));
  });
  count.finish(total);
  return codes;
}

nlohmann::ordered_json fp8_block_config(const std::vector<std::string>& unchanged) {
  return {{"activation_scheme", "dynamic"},
          {"fmt", "e4m3"},
          {"modules_to_not_convert", unchanged},
          {"quant_method", "fp8"},
          {"weight_block_size", {kFp8Block, kFp8Block}}};
}

}  // namespace viaduct
