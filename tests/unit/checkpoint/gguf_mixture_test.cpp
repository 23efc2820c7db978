// Which types the tensors of quantized GGUF files have; the expected ones are llama.cpp's.

#include "checkpoint/gguf_mixture.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace viaduct {
namespace {

using Type = GgufTensorType;
using testing::ElementsAre;

ModelConfig model_of(int64_t layers) {
  ModelConfig model;
  model.family = "llama";
  model.layers = layers;
  model.heads = model.kv_heads = 8;
  model.tied_embeddings = false;
  return model;
}

Type type_of(ExportFormat format, const ModelConfig& model, std::string_view name,
             int64_t row = 1024) {
  return choose_gguf_type(format, model, name, row).type;
}

std::vector<int64_t> layers_with(Type type, ExportFormat format, int64_t layers,
                                 const char* module) {
  std::vector<int64_t> found;
  for (int64_t layer = 0; layer < layers; ++layer)
    if (type_of(format, model_of(layers), fmt::format("blk.{}.{}.weight", layer, module)) == type)
      found.push_back(layer);
  return found;
}

TEST(GgufMixture, MediumFormatsHaveQ6KInHalfOfTheLayers) {
  for (const ExportFormat format : {ExportFormat::q4_k_m, ExportFormat::q5_k_m}) {
    for (const char* module : {"attn_v", "ffn_down", "attn_qkv"}) {
      EXPECT_THAT(layers_with(Type::q6_k, format, 32, module),
                  ElementsAre(0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31));
      EXPECT_THAT(layers_with(Type::q6_k, format, 4, module), ElementsAre(2, 3));
    }
    for (const char* module : {"attn_q", "attn_k", "attn_output", "ffn_up", "ffn_gate"})
      EXPECT_THAT(layers_with(Type::q6_k, format, 32, module), ElementsAre());
  }
}

TEST(GgufMixture, SmallFormats) {
  EXPECT_THAT(layers_with(Type::q5_k, ExportFormat::q4_k_s, 24, "attn_v"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(layers_with(Type::q5_k, ExportFormat::q4_k_s, 24, "ffn_down"), ElementsAre(0, 1, 2));
  EXPECT_EQ(layers_with(Type::q5_k, ExportFormat::q5_k_s, 24, "attn_v").size(), 24u);
  EXPECT_EQ(layers_with(Type::q4_0, ExportFormat::q4_0, 24, "attn_v").size(), 24u);
}

TEST(GgufMixture, TheOutputIsQ6K) {
  const ModelConfig own = model_of(2);
  ModelConfig tied = own;
  tied.tied_embeddings = true;
  for (const ExportFormat format : {ExportFormat::q4_0, ExportFormat::q5_1, ExportFormat::q4_k_s,
                                    ExportFormat::q4_k_m, ExportFormat::q6_k}) {
    EXPECT_EQ(type_of(format, own, "output.weight"), Type::q6_k);
    EXPECT_EQ(type_of(format, tied, "token_embd.weight"), Type::q6_k);
    EXPECT_EQ(type_of(format, own, "output.weight", 576), Type::q8_0);
  }
  EXPECT_EQ(type_of(ExportFormat::q4_k_m, own, "token_embd.weight"), Type::q4_k);
  EXPECT_EQ(type_of(ExportFormat::q8_0, own, "output.weight"), Type::q8_0);
}

TEST(GgufMixture, OtherRowsHaveTypesOfSmallerBlocks) {
  const ModelConfig model = model_of(2);
  const std::string name = "blk.0.attn_q.weight";
  const auto type = [&](ExportFormat format, int64_t row) {
    return type_of(format, model, name, row);
  };
  EXPECT_EQ(type(ExportFormat::q4_k_m, 576), Type::q5_0);
  EXPECT_EQ(type(ExportFormat::q5_k_m, 576), Type::q5_1);
  EXPECT_EQ(type(ExportFormat::q6_k, 576), Type::q8_0);
  EXPECT_EQ(type(ExportFormat::q4_0, 576), Type::q4_0);
  for (const ExportFormat format : {ExportFormat::q4_k_m, ExportFormat::q5_k_m, ExportFormat::q6_k,
                                    ExportFormat::q4_0, ExportFormat::q8_0})
    EXPECT_EQ(type(format, 176), Type::f16);
  const GgufChoice choice = choose_gguf_type(ExportFormat::q6_k, model, name, 176);
  EXPECT_EQ(choice.wanted, Type::q6_k);
}

TEST(GgufMixture, ValuesOf80LayersAreAtLeastQ5K) {
  ModelConfig model = model_of(80);
  const auto type = [&] { return type_of(ExportFormat::q4_k_m, model, "blk.11.attn_v.weight"); };
  EXPECT_EQ(type(), Type::q4_k);
  model.kv_heads = 1;
  EXPECT_EQ(type(), Type::q5_k);
  model.family = "qwen3";
  EXPECT_EQ(type(), Type::q4_k);
  model.family = "qwen2";
  EXPECT_EQ(type(), Type::q5_k);
}

TEST(GgufMixture, FileTypesAreLlamaCppsNumbers) {
  EXPECT_EQ(gguf_file_type(ExportFormat::q4_0), 2);
  EXPECT_EQ(gguf_file_type(ExportFormat::q4_1), 3);
  EXPECT_EQ(gguf_file_type(ExportFormat::q8_0), 7);
  EXPECT_EQ(gguf_file_type(ExportFormat::q5_0), 8);
  EXPECT_EQ(gguf_file_type(ExportFormat::q5_1), 9);
  EXPECT_EQ(gguf_file_type(ExportFormat::q4_k_s), 14);
  EXPECT_EQ(gguf_file_type(ExportFormat::q4_k_m), 15);
  EXPECT_EQ(gguf_file_type(ExportFormat::q5_k_s), 16);
  EXPECT_EQ(gguf_file_type(ExportFormat::q5_k_m), 17);
  EXPECT_EQ(gguf_file_type(ExportFormat::q6_k), 18);
}

}  // namespace
}  // namespace viaduct
