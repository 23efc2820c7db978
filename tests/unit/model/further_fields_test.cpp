// What a config.json says in "viaduct_fields", beyond its family.

#include "model/further_fields.h"

#include <gtest/gtest.h>

namespace viaduct {
namespace {

ModelConfig llama() {
  ModelConfig model;
  model.family = "llama";
  model.layers = 2, model.hidden = 32, model.feed_forward = 64;
  model.heads = model.kv_heads = 4, model.head_dim = 8;
  model.vocabulary = 64, model.max_positions = 16;
  model.rotary.width = 8;
  model.windows = {0, 0};
  return model;
}

TEST(FurtherFields, SettingsOfPartsThatTheModelDoesNotHaveAreNone) {
  const ModelConfig said = llama();
  ModelConfig model = said;
  model.norm_bias = false;  // of layer norms, and the norms are RMSNorm
  model.qk_norm_per_head = false;
  model.qk_norm_after_rotary = model.qk_norm_own_weights = true;
  model.window_rotary_base = 500;
  model.no_rope = {0, 0};
  model.no_rope_temperature = {.scale = 2, .length = 8};
  EXPECT_EQ(further_fields(model, said), "");
}

TEST(FurtherFields, SettingsOfPartsThatItHasAreSaid) {
  const ModelConfig said = llama();
  ModelConfig model = said;
  model.norm = NormKind::layer_norm;
  model.norm_bias = false;
  EXPECT_EQ(further_fields(model, said), "{normalization: LayerNorm, layernorm_bias: false}");
  model = said;
  model.qk_norm = true;
  model.qk_norm_per_head = false;
  EXPECT_EQ(further_fields(model, said), "{qk_layernorm: true, qk_layernorm_per_head: false}");
  model = said;
  model.windows = {8, 8};
  model.window_rotary_base = 500;
  EXPECT_EQ(further_fields(model, said), "{window_size: 8, window_rotary_base: 500}");
  model = said;
  model.no_rope = {0, 1};
  EXPECT_EQ(further_fields(model, said), "{no_rope_freq: [0, 1]}");
}

}  // namespace
}  // namespace viaduct
