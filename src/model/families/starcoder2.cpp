// StarCoder 2 (2024): rotary positions and grouped key-value heads with the layer norms, biases and
// plain feed-forward of GPT-2, and a sliding window in every layer.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr LlamaForm kForm{.norm = NormKind::layer_norm, .gated = false};

ModelConfig read_starcoder2(HfConfig& config) {
  ModelConfig model = read_llama_like(config);
  model.norm = NormKind::layer_norm;
  model.norm_eps = config.number("norm_epsilon", 1e-5);
  model.activation = activation_from_hf(config, "hidden_act", "gelu_pytorch_tanh");
  model.gated = false;
  model.tied_embeddings = config.boolean("tie_word_embeddings", true);
  model.qkv_bias = model.projection_bias = model.up_bias = model.down_bias =
      config.boolean("use_bias", true);
  model.embedding_dropout = config.number("embedding_dropout", 0);
  model.residual_dropout = config.number("residual_dropout", 0);
  model.windows.assign(static_cast<size_t>(model.layers), config.integer("sliding_window", 0));
  // In the files of its publisher, read by no code: names of what the family always has, and fields
  // of the code that it was trained with.
  config.ignore({"activation_function", "attention_softmax_in_fp32", "layer_norm_epsilon",
                 "mlp_type", "norm_type", "scale_attention_softmax_in_fp32", "scale_attn_weights"});
  return model;
}

nlohmann::ordered_json write_starcoder2(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model, kForm);
  json["norm_epsilon"] = model.norm_eps;
  json["use_bias"] = model.qkv_bias;
  json["embedding_dropout"] = model.embedding_dropout;
  json["residual_dropout"] = model.residual_dropout;
  write_common_window(model, json);
  return json;
}

void resolve_starcoder2(ModelFields& fields) {
  fields.normalization.resolve(NormKind::layer_norm);
  fields.activation_func.resolve(FeedForwardActivation::gelu_tanh);
  fields.gated_linear_unit.resolve(false);
  fields.add_bias_linear.resolve(true);
  fields.share_embeddings_and_output_weights.resolve(true);
}

TensorNames names() {
  TensorNames names = llama_names();
  names.up = "model.layers.{}.mlp.c_fc";
  names.down = "model.layers.{}.mlp.c_proj";
  return names;
}

}  // namespace

ModelFamily starcoder2() {
  return {"starcoder2", "Starcoder2ForCausalLM", read_starcoder2, write_starcoder2,
          names(),      resolve_starcoder2};
}

}  // namespace viaduct::families
