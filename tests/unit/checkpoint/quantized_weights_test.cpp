// Reads FP8 and MX weights of Hugging Face folders as BF16.

#include "checkpoint/quantized_weights.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"
#include "tensor/number_formats.h"
#include "tensor/round_once.h"

namespace viaduct {
namespace {

using test::TemporaryFolder;
using testing::HasSubstr;
using testing::ThrowsMessage;

Tensor codes(DType dtype, const Shape& shape) {
  Tensor tensor = host_tensor(dtype, shape);
  auto* bytes = static_cast<uint8_t*>(tensor.raw());
  for (int64_t i = 0; i < tensor.bytes(); ++i) {
    const auto code = static_cast<uint8_t>(i * 37 + 11);
    bytes[i] = (code & 0x7f) >= 0x7c && dtype != DType::u8 ? 0x3a : code;  // only finite ones
  }
  return tensor;
}

Tensor scales(const Shape& shape) {
  Tensor tensor = host_tensor(DType::f32, shape);
  for (int64_t i = 0; i < tensor.elements(); ++i)
    tensor.data<float>()[i] = 0.013f * static_cast<float>(i + 1);
  return tensor;
}

/// The tensors in a folder with this quantization_config.
std::unique_ptr<TensorSource> opened(const TemporaryFolder& folder,
                                     const std::map<std::string, Tensor>& tensors,
                                     const std::string& config) {
  write_safetensors(folder / "model.safetensors", tensors);
  const auto read =
      read_quantization_config("{\"quantization_config\": " + config + "}", "config.json");
  return std::make_unique<QuantizedWeights>(std::make_unique<SafetensorsFolder>(folder.path()),
                                            *read);
}

void expect_product(const TensorSource& weights, const std::string& name, const Tensor& codes,
                    const Tensor& scales, int64_t rows, int64_t columns) {
  const Tensor made = weights.tensor(name);
  ASSERT_EQ(made.dtype(), DType::bf16);
  ASSERT_EQ(made.shape(), codes.shape());
  const int64_t width = codes.dim(1), across = (width + columns - 1) / columns;
  for (int64_t i = 0; i < made.elements(); ++i) {
    const auto bits = static_cast<const uint8_t*>(codes.raw())[i];
    const double code = codes.dtype() == DType::e4m3 ? float8_e4m3::Codes::decode(bits)
                                                     : float8_e5m2::Codes::decode(bits);
    const double scale = scales.data<float>()[i / width / rows * across + i % width / columns];
    EXPECT_EQ(made.data<bfloat16>()[i].bits,
              static_cast<bfloat16>(rounded_to_odd(code * scale)).bits)
        << name << " " << i;
  }
}

constexpr const char* kBlocks =
    R"({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]})";

TEST(QuantizedWeights, Fp8OfEachScaleShape) {
  const Tensor values = codes(DType::e4m3, {130, 200}), wide = codes(DType::e5m2, {3, 40});
  {
    TemporaryFolder folder;
    const auto weights = opened(folder,
                                {{"a.weight", values},
                                 {"a.weight_scale_inv", scales({2, 2})},
                                 {"a.bias", test::patterned(DType::bf16, {130}, 1)},
                                 {"a.input_scale", scales({1})}},
                                kBlocks);
    expect_product(*weights, "a.weight", values, scales({2, 2}), 128, 128);
    EXPECT_EQ(weights->tensors().size(), 2u);  // no scales
    EXPECT_EQ(test::bytes_of(weights->tensor("a.bias")),
              test::bytes_of(test::patterned(DType::bf16, {130}, 1)));
  }
  const std::string compressed =
      R"({"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups":
          {"group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}})";
  const std::vector<std::pair<Shape, std::string>> forms{
      {{}, R"({"quant_method": "fp8", "activation_scheme": "static"})"},
      {{}, R"({"quant_method": "fp8", "fmt": "float8_e4m3fn"})"},
      {{1}, R"({"quant_method": "modelopt", "quant_algo": "FP8"})"},
      {{3, 1}, compressed},
      {{3, 1}, R"({"quant_method": "fbgemm_fp8"})"}};
  for (const auto& [shape, config] : forms) {
    TemporaryFolder folder;
    const auto weights =
        opened(folder, {{"b.weight", wide}, {"b.weight_scale", scales(shape)}}, config);
    expect_product(*weights, "b.weight", wide, scales(shape), shape.elements() == 1 ? 3 : 1, 40);
  }
}

TEST(QuantizedWeights, MxFp8) {
  const Tensor values = codes(DType::e4m3, {2, 96});
  Tensor exponents = host_tensor(DType::u8, {2, 3}), powers = host_tensor(DType::f32, {2, 3});
  for (int i = 0; i < 6; ++i) {
    static_cast<uint8_t*>(exponents.raw())[i] = static_cast<uint8_t>(120 + i);
    powers.data<float>()[i] = std::ldexp(1.0f, i - 7);
  }
  TemporaryFolder folder;
  const auto weights = opened(folder, {{"a.weight", values}, {"a.weight_scale", exponents}},
                              R"({"quant_method": "modelopt", "quant_algo": "MXFP8"})");
  expect_product(*weights, "a.weight", values, powers, 1, 32);
}

// [experts 2, outputs 3, groups 2, bytes 16] is the matrix [2, 64, 3] for x · W.
TEST(QuantizedWeights, PackedMxFp4) {
  const Tensor blocks = codes(DType::u8, {2, 3, 2, 16});
  Tensor exponents = host_tensor(DType::u8, {2, 3, 2});
  for (int i = 0; i < 12; ++i) static_cast<uint8_t*>(exponents.raw())[i] = uint8_t(121 + i);
  TemporaryFolder folder;
  const auto weights = opened(
      folder,
      {{"e.down_proj_blocks", blocks}, {"e.down_proj_scales", exponents}, {"e.bias", scales({3})}},
      R"({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]})");
  const Tensor made = weights->tensor("e.down_proj");
  ASSERT_EQ(made.shape(), (Shape{2, 64, 3}));
  const float values[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (int e = 0; e < 2; ++e) {
    for (int k = 0; k < 64; ++k) {
      for (int n = 0; n < 3; ++n) {
        const int at = (e * 3 + n) * 64 + k;
        const int byte = static_cast<const uint8_t*>(blocks.raw())[at / 2];
        const int code = k % 2 == 0 ? byte % 16 : byte / 16;
        const float magnitude = std::ldexp(values[code % 8], 121 + at / 32 - 127);
        EXPECT_EQ(static_cast<float>(made.data<bfloat16>()[(e * 64 + k) * 3 + n]),
                  code >= 8 ? -magnitude : magnitude);
      }
    }
  }
  EXPECT_TRUE(weights->contains("e.bias"));
  EXPECT_FALSE(weights->contains("e.down_proj_blocks"));
  // An expert and a half, as a rank may read them.
  const Piece piece{{{1, 0, 0}, {1, 64, 3}}, 5, 100};
  std::vector<bfloat16> part(95);
  weights->read_into("e.down_proj", piece, reinterpret_cast<std::byte*>(part.data()));
  for (int i = 0; i < 95; ++i) EXPECT_EQ(part[i].bits, made.data<bfloat16>()[192 + 5 + i].bits);
}

TEST(QuantizedWeights, APieceIsThatOfTheWhole) {
  const Tensor values = codes(DType::e4m3, {130, 200});
  TemporaryFolder folder;
  const auto weights =
      opened(folder, {{"a.weight", values}, {"a.weight_scale_inv", scales({2, 2})}}, kBlocks);
  const Tensor whole = weights->tensor("a.weight");
  const Piece piece{{{100, 120}, {30, 50}}, 73, 1400};
  std::vector<bfloat16> part(static_cast<size_t>(piece.elements()));
  weights->read_into("a.weight", piece, reinterpret_cast<std::byte*>(part.data()));
  for (int64_t i = piece.begin; i < piece.end; ++i) {
    EXPECT_EQ(part[static_cast<size_t>(i - piece.begin)].bits,
              whole.data<bfloat16>()[(100 + i / 50) * 200 + 120 + i % 50].bits);
  }
  EXPECT_THROW(weights->read_into("a.weight", {{{100, 120}, {31, 50}}, 0, 1},
                                  reinterpret_cast<std::byte*>(part.data())),
               ShapeError);
}

TEST(QuantizedWeights, RefusesWhatDoesNotFit) {
  const Tensor values = codes(DType::e4m3, {130, 200});
  const auto expect = [](const std::map<std::string, Tensor>& tensors, const std::string& config,
                         const std::string& reason) {
    TemporaryFolder folder;
    EXPECT_THAT([&] { opened(folder, tensors, config)->tensor("a.weight"); },
                ThrowsMessage<IoError>(HasSubstr(reason)));
  };
  expect({{"a.weight", values}}, kBlocks, "neither a.weight_scale_inv nor a.weight_scale");
  expect({{"a.weight", values}, {"a.weight_scale_inv", scales({2, 1})}}, kBlocks,
         "scales [2, 1], expected [2, 2] for blocks of 128 × 128");
  expect({{"a.weight", values}, {"a.weight_scale", scales({2, 2})}}, R"({"quant_method": "fp8"})",
         "expected one, or one for each row");
  expect({{"a.weight", values}, {"a.weight_scale", scales({1})}}, R"({"quant_method": "mxfp8"})",
         "scales are f32, expected u8 exponents");
  expect({{"a.weight", values}, {"a.weight_scale", scales({1})}}, R"({"quant_method": "mxfp4"})",
         "is e4m3, but quant_method is mxfp4");
  Tensor infinite = scales({1});
  infinite.data<float>()[0] = std::numeric_limits<float>::infinity();
  expect({{"a.weight", values}, {"a.weight_scale", infinite}}, R"({"quant_method": "fp8"})",
         "scale 0 is inf");
  infinite.data<float>()[0] = 3e38f;
  expect({{"a.weight", values}, {"a.weight_scale", infinite}}, R"({"quant_method": "fp8"})",
         "beyond the largest number of bf16");
  TemporaryFolder folder;
  EXPECT_THAT(
      [&] {
        opened(folder, {{"w_blocks", scales({4})}}, R"({"quant_method": "mxfp4"})");
      },
      ThrowsMessage<IoError>(HasSubstr("expected MXFP4 codes u8 [E, N, K / 32, 16]")));
}

TEST(QuantizationConfig, NamesWhatIsNotSupported) {
  const auto refusal = [](const std::string& config) {
    try {
      read_quantization_config("{\"quantization_config\": " + config + "}", "DIR/config.json");
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  EXPECT_THAT(refusal(R"({"quant_method": "gptq", "bits": 4})"),
              HasSubstr("DIR/config.json: quantization_config: quant_method \"gptq\" is not "
                        "supported (supported: "));
  EXPECT_THAT(refusal(R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})"),
              HasSubstr("quant_algo \"NVFP4\" of modelopt is not supported"));
  EXPECT_THAT(refusal(R"({"quant_method": "compressed-tensors", "format": "pack-quantized"})"),
              HasSubstr("format \"pack-quantized\" of compressed-tensors is not supported"));
  EXPECT_THAT(refusal(R"({"quant_method": "compressed-tensors", "format": "float-quantized",
                          "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int"}}}})"),
              HasSubstr("config_groups.g.weights is not supported"));
  EXPECT_THAT(refusal(R"({"quant_method": "fp8", "weight_block_size": [128]})"),
              HasSubstr("weight_block_size is [128], expected two positive sizes"));
  EXPECT_EQ(read_quantization_config(R"({"quantization_config": null})", ""), std::nullopt);
  EXPECT_EQ(without_quantization_config(R"({"a": 1})"), R"({"a": 1})");
  EXPECT_THAT(without_quantization_config(R"({"a": 1, "quantization_config": {}})"),
              testing::Not(HasSubstr("quantization_config")));
}

}  // namespace
}  // namespace viaduct
