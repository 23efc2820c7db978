#include "model/model_from_fields.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "model/family.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

const char* const kConfigs[] = {
    R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 100, "n_positions": 32,
        "embd_pdrop": 0.2})",
    R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 128,
        "attention_bias": true, "mlp_bias": false,
        "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 64}})",
    R"({"model_type": "qwen3", "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 100,
        "max_position_embeddings": 128})",
    R"({"model_type": "gemma2", "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 96,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 100,
        "max_position_embeddings": 128, "sliding_window": 16, "query_pre_attn_scalar": 48})",
    R"({"model_type": "mistral", "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 128,
        "sliding_window": 16})",
};

TEST(ModelFromFields, ArchitecturesGoThroughFieldsUnchanged) {
  for (const char* text : kConfigs) {
    const ModelConfig model = read_hf_config(text, "config.json");
    ModelFields fields;
    take_architecture(fields, model);
    fields.resolve();
    EXPECT_TRUE(fields.missing().empty());
    const ModelConfig again = to_model_config(fields, model);
    EXPECT_EQ(write_hf_config(again), write_hf_config(model)) << text;
    const std::vector<int64_t> none(static_cast<size_t>(model.layers), 0);
    EXPECT_EQ(again.windows, model.windows.empty() ? none : model.windows);
    EXPECT_EQ(again.attention_scale, model.attention_scale);
    EXPECT_EQ(again.embedding_scale, model.embedding_scale);
    EXPECT_EQ(again.norm_weight_offset, model.norm_weight_offset);
    EXPECT_EQ(again.output_norms, model.output_norms);
    EXPECT_EQ(again.qk_norm, model.qk_norm);
    EXPECT_EQ(again.qkv_bias, model.qkv_bias);
    EXPECT_EQ(again.down_bias, model.down_bias);
    EXPECT_EQ(again.rotary.width, model.rotary.width);
  }
}

TEST(ModelFromFields, TheUsersWordWinsOverTheModelFolder) {
  test::TemporaryFolder folder;
  write_file_atomically(folder / "config.json", kConfigs[1]);
  ModelFields fields;
  fields.hf_config = folder.path().string();
  fields.num_layers = 7;
  fields.rope_scaling = parse_yaml("{rope_type: linear, factor: 2}", "test");
  take_hf_config(fields);
  fields.resolve();
  const ModelConfig model = to_model_config(fields);
  EXPECT_EQ(model.layers, 7);
  EXPECT_EQ(model.kv_heads, 2);
  EXPECT_EQ(model.rotary.scaling, RopeScalingKind::linear);
  EXPECT_EQ(model.rotary.factor, 2);
  EXPECT_TRUE(model.qkv_bias);
  EXPECT_FALSE(model.up_bias);
}

TEST(ModelFromFields, WhatFieldsCannotSayIsRefused) {
  ModelConfig model = read_hf_config(kConfigs[3], "config.json");
  model.windows = {16, 32, 0, 0};
  ModelFields fields;
  EXPECT_THROW(take_architecture(fields, model), ConfigError);
  ModelFields scaled;
  take_architecture(scaled, read_hf_config(kConfigs[2], "config.json"));
  scaled.rope_scaling = parse_yaml("{rope_type: dynamic, factor: 2}", "test");
  scaled.resolve();
  EXPECT_THROW(to_model_config(scaled), ConfigError);
}

}  // namespace
}  // namespace viaduct
