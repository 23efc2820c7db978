#include "support/tiny_models.h"

#include "base/error.h"

namespace viaduct::test {
namespace {

ModelConfig tiny_llama() {
  ModelConfig c;
  c.family = "llama";
  c.layers = 2, c.hidden = 16, c.feed_forward = 12, c.heads = 4, c.kv_heads = 2, c.head_dim = 6;
  c.vocabulary = 13, c.max_positions = 32;
  c.rotary.width = 6;
  c.attention_scale = 0.4;
  c.init_std = 0.3;
  return c;
}

ModelConfig tiny_mixtral() {
  ModelConfig c = tiny_llama();
  c.family = "mixtral";
  c.moe.experts = 4, c.moe.feed_forward = c.feed_forward;
  c.moe.layers = {1, 1};
  return c;
}

}  // namespace

ModelConfig tiny_t5() {
  ModelConfig c = tiny_llama();
  c.family = "t5";
  c.encoder.layers = 2;
  c.kv_heads = c.heads;
  c.positions = PositionKind::relative;
  c.rotary = {};
  c.relative = {8, 5};
  c.attention_scale = 1;
  c.activation = ActivationKind::relu, c.gated = false;
  c.tied_embeddings = true;
  c.logit_scale = 0.25;  // hidden^-1/2
  c.init_std = 0.3;
  return c;
}

std::vector<TinyModel> tiny_models() {
  std::vector<TinyModel> list;
  list.push_back({"llama", tiny_llama()});
  {
    ModelConfig c = tiny_llama();
    c.family = "qwen2";
    c.qkv_bias = true;
    c.kv_heads = 1;
    c.tied_embeddings = true;
    c.windows = {0, 3};
    list.push_back({"qwen2", c});
  }
  {
    ModelConfig c = tiny_llama();
    c.family = "qwen3";
    c.qk_norm = true;
    c.rotary.width = 4;
    list.push_back({"qwen3", c});
  }
  {
    ModelConfig c = tiny_llama();
    c.family = "gemma2";
    c.output_norms = true;
    c.norm_weight_offset = 1;
    c.attention_softcap = 1.5, c.logit_softcap = 2.0;
    c.embedding_scale = 4;
    c.tied_embeddings = true;
    c.padding_token = 0;
    c.activation = ActivationKind::gelu_tanh;
    list.push_back({"gemma2", c});
  }
  {
    ModelConfig c = tiny_llama();
    c.family = "gpt2";
    c.norm = NormKind::layer_norm;
    c.gated = false;
    c.kv_heads = 4, c.head_dim = 4;
    c.positions = PositionKind::learned;
    c.qkv_bias = c.projection_bias = c.up_bias = c.down_bias = true;
    c.tied_embeddings = true;
    c.activation = ActivationKind::gelu_tanh;
    c.embedding_dropout = c.residual_dropout = 0.2;
    c.attention_dropout = 0.3;
    list.push_back({"gpt2", c});
  }
  return list;
}

ModelConfig tiny_model(const std::string& name) {
  if (name == "mixtral") return tiny_mixtral();
  for (const TinyModel& model : tiny_models())
    if (model.name == name) return model.config;
  fail<ConfigError>("no tiny model {}", name);
}

ModelConfig small_llama() {
  ModelConfig c;
  c.family = "llama";
  c.layers = 1, c.hidden = 16, c.feed_forward = 24, c.heads = 2, c.kv_heads = 1, c.head_dim = 8;
  c.vocabulary = 40, c.max_positions = 8;
  c.rotary.width = 8;
  c.attention_scale = 0.35;
  return c;
}

}  // namespace viaduct::test
