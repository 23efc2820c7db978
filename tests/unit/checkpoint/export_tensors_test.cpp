// Weights in the number format of an export.

#include "checkpoint/export_tensors.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "checkpoint/fp8_blocks.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/round_tensor.h"
#include "support/temporary_folder.h"
#include "tensor/number_formats.h"

namespace viaduct {
namespace {

using test::test_data;
using testing::HasSubstr;
using testing::ThrowsMessage;

Tensor floats(const Shape& shape, const std::vector<float>& values) {
  Tensor tensor = host_tensor(DType::f32, shape);
  for (size_t i = 0; i < values.size(); ++i) tensor.data<float>()[i] = values[i];
  return tensor;
}

TEST(RoundedTensor, RoundsToNearestEvenAndCountsWhatItChanges) {
  // Exact; a tie to even (down); a tie to even (up); to zero; infinity.
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor from = floats({5}, {1.5f, 1 + 0x1p-11f, 1 + 3 * 0x1p-11f, 1e-9f, infinity});
  Rounding total;
  const Tensor to = rounded_tensor(from, DType::f16, "w", total);
  const auto* values = to.data<float16>();
  EXPECT_EQ(static_cast<float>(values[0]), 1.5f);
  EXPECT_EQ(static_cast<float>(values[1]), 1.0f);
  EXPECT_EQ(static_cast<float>(values[2]), 1 + 0x1p-9f);
  EXPECT_EQ(static_cast<float>(values[3]), 0.0f);
  EXPECT_EQ(static_cast<float>(values[4]), infinity);
  EXPECT_EQ(total.elements, 5);
  EXPECT_EQ(total.changed, 3);
  EXPECT_EQ(total.vanished, 1);
  EXPECT_NEAR(total.largest, 0x1p-11, 1e-6);
  EXPECT_EQ(total.largest_in, "w");
  EXPECT_EQ(total.text(),
            "3 of 5 elements were rounded, by 0.0335 % over all (L2) and at most 0.0488 % of an "
            "element that stays above zero (w), 1 of them to zero");
}

TEST(RoundedTensor, RoundsFp64Once) {
  Tensor from = host_tensor(DType::f64, {1});
  from.data<double>()[0] = 1 + 0x1p-8 + 0x1p-40;
  Rounding total;
  EXPECT_EQ(static_cast<float>(rounded_tensor(from, DType::bf16, "w", total).data<bfloat16>()[0]),
            1 + 0x1p-7f);
}

TEST(RoundedTensor, RefusesWhatTheFormatCannotHold) {
  const Tensor from = floats({4}, {65504.0f, 65520.0f, -1e6f, 1.0f});
  Rounding total;
  EXPECT_THAT(
      [&] { rounded_tensor(from, DType::f16, "model.w", total); },
      ThrowsMessage<IoError>(HasSubstr("tensor \"model.w\": 2 of its 4 elements are beyond the "
                                       "largest number of f16 (the largest is 1e+06)")));
  EXPECT_EQ(total.elements, 0);
  EXPECT_NO_THROW(rounded_tensor(from, DType::bf16, "model.w", total));
}

// 130 × 200 elements: four blocks, three of them cut at the border.
TEST(Fp8Blocks, EachBlockHasTheScaleOfItsLargestMagnitude) {
  Tensor from = host_tensor(DType::f32, {130, 200});
  auto* values = from.data<float>();
  for (int64_t i = 0; i < from.elements(); ++i) {
    const int64_t row = i / 200, column = i % 200;
    const float size = row < 128 ? (column < 128 ? 1.0f : 100.0f) : (column < 128 ? 1e-6f : 0.0f);
    values[i] = size * (static_cast<float>((i * 7919) % 1000) - 500) / 500;
  }
  const Tensor scales = fp8_block_scales(from, "w");
  ASSERT_EQ(scales.shape(), (Shape{2, 2}));
  const auto* scale = scales.data<float>();
  float largest[4] = {};
  for (int64_t i = 0; i < from.elements(); ++i) {
    float& of_block = largest[i / 200 / 128 * 2 + i % 200 / 128];
    of_block = std::max(of_block, std::fabs(values[i]));
  }
  for (int b = 0; b < 3; ++b) EXPECT_EQ(scale[b], largest[b] / 448);
  EXPECT_EQ(scale[3], 1);  // zeros

  Rounding total;
  const Tensor codes = fp8_block_codes(from, "w", total);
  ASSERT_EQ(codes.dtype(), DType::e4m3);
  double worst = 0;
  for (int64_t i = 0; i < from.elements(); ++i) {
    const int64_t block = i / 200 / 128 * 2 + i % 200 / 128;
    const float8_e4m3 code = codes.data<float8_e4m3>()[i];
    EXPECT_EQ(code.bits, float8_e4m3(values[i] / scale[block]).bits) << i;
    if (largest[block] > 0)
      worst = std::max(worst, std::fabs(static_cast<double>(static_cast<float>(code)) *
                                            static_cast<double>(scale[block]) -
                                        static_cast<double>(values[i])) /
                                  static_cast<double>(largest[block]));
  }
  // Half a step of the largest codes (32 at 448).
  EXPECT_LE(worst, 16.0 / 448 * (1 + 1e-6));
  EXPECT_GT(worst, 8.0 / 448);
  EXPECT_EQ(total.elements, from.elements());
  EXPECT_LE(total.largest, 1);
}

TEST(Fp8Blocks, RefusesWhatIsNotFinite) {
  const Tensor from = floats({1, 3}, {1, std::numeric_limits<float>::quiet_NaN(), 2});
  EXPECT_THAT([&] { fp8_block_scales(from, "w"); },
              ThrowsMessage<IoError>(HasSubstr("tensor \"w\": 1 of its 3 elements is not finite")));
}

TEST(ExportTensors, Fp8IsOfTheMatricesInBlocks) {
  const ModelFolder folder = resolve_model_folder(test_data("golden/llama/model"));
  const auto weights = open_weights(folder);
  ExportTensors tensors(*weights, read_model_config(folder), ExportFormat::fp8);
  std::map<std::string, TensorInfo> infos;
  for (const TensorInfo& info : tensors.tensors()) {
    infos[info.name] = info;
    const Tensor tensor = tensors.tensor(info.name);
    EXPECT_EQ(tensor.dtype(), info.dtype) << info.name;
    EXPECT_EQ(tensor.shape(), info.shape) << info.name;
  }
  for (const char* matrix :
       {"self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.down_proj"}) {
    const std::string name = std::string("model.layers.3.") + matrix + ".weight";
    EXPECT_EQ(infos.at(name).dtype, DType::e4m3) << name;
    EXPECT_EQ(infos.at(name + "_scale_inv").dtype, DType::f32) << name;
  }
  EXPECT_EQ(infos.at("model.layers.0.mlp.down_proj.weight_scale_inv").shape, (Shape{1, 2}));
  for (const char* plain : {"model.embed_tokens.weight", "lm_head.weight", "model.norm.weight",
                            "model.layers.0.input_layernorm.weight"}) {
    EXPECT_EQ(infos.at(plain).dtype, DType::bf16) << plain;
    EXPECT_FALSE(infos.contains(std::string(plain) + "_scale_inv"));
  }
  EXPECT_THAT(tensors.unquantized_modules(), testing::ElementsAre("lm_head"));
}

TEST(ExportTensors, RefusesFormatsThatTheFolderHasNoFormOf) {
  const ModelFolder folder = resolve_model_folder(test_data("golden/gpt2/model"));
  const auto weights = open_weights(folder);
  const ModelConfig model = read_model_config(folder);
  EXPECT_THAT([&] { ExportTensors(*weights, model, ExportFormat::fp8); },
              ThrowsMessage<ConfigError>(HasSubstr("stored transposed")));
  EXPECT_THAT([&] { ExportTensors(*weights, model, ExportFormat::q8_0); },
              ThrowsMessage<ConfigError>(HasSubstr("format of GGUF files")));
  EXPECT_THAT([] { export_format("bf61"); },
              ThrowsMessage<ConfigError>(HasSubstr("did you mean bf16?")));
}

}  // namespace
}  // namespace viaduct
