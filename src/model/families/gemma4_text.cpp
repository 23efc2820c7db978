// Gemma 4 (2026), its text model where every layer has its own keys and a plain feed-forward: Gemma
// 3 with norms on values, a number that multiplies each block's output, and other heads in layers
// without a window, whose values may be their keys.

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kBase = 1e6, kWindowBase = 10000, kPart = 0.25;
constexpr int64_t kHeadDim = 256, kFullHeadDim = 512, kPattern = 6;

/// What its larger and its smallest models have, and no code here.
void refuse_other_layers(HfConfig& config) {
  const auto refuse = [&](bool refused, const char* field, const auto& found, const char* what,
                          const char* supported) {
    VIADUCT_CHECK(ConfigError, !refused, "{}: {} {} is not supported: {} (supported: {})",
                  config.where(), field, found, what, supported);
  };
  const int64_t per_layer = config.integer("hidden_size_per_layer_input", 256);
  refuse(per_layer != 0, "hidden_size_per_layer_input", per_layer,
         "embeddings of each layer (Gemma 4 E2B and E4B)", "0");
  const int64_t shared = config.integer("num_kv_shared_layers", 0);
  refuse(shared != 0, "num_kv_shared_layers", shared,
         "layers that attend to the keys of earlier ones", "0");
  const bool experts = config.boolean("enable_moe_block", false);
  refuse(experts, "enable_moe_block", experts, "experts beside a feed-forward (Gemma 4 26B-A4B)",
         "false");
  const std::string both = config.text("use_bidirectional_attention", "");
  refuse(both != "" && both != "vision", "use_bidirectional_attention", both,
         "text that attends forwards", "null, or vision, which is about images");
  // They say how wide the above is, and are read by nothing without it.
  config.ignore({"vocab_size_per_layer_input", "use_double_wide_mlp", "num_experts",
                 "top_k_experts", "moe_intermediate_size", "expert_intermediate_size"});
}

/// As transformers 5.24 writes it: an object for each layer that differs, all of them alike.
void read_per_layer_config(HfConfig& config, ModelConfig& model) {
  HfConfig layers = config.object("per_layer_config");
  std::optional<FullAttention> first;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const std::string number = std::to_string(layer);
    const bool full = model.windows[static_cast<size_t>(layer)] == 0;
    FullAttention here;
    if (layers.has(number)) {
      HfConfig one = layers.object(number);
      here.head_dim = one.integer("head_dim", model.head_dim);
      here.kv_heads = one.integer("num_key_value_heads", model.kv_heads);
      (void)one.finish(UnknownFields::refused);
    } else {
      here = {.head_dim = model.head_dim, .kv_heads = model.kv_heads};
    }
    const FullAttention wanted =
        full ? first.value_or(here)
             : FullAttention{.head_dim = model.head_dim, .kv_heads = model.kv_heads};
    VIADUCT_CHECK(ConfigError, here == wanted,
                  "{}: per_layer_config: layer {} has heads of {} and {} key-value heads, expected "
                  "{} and {}, as in the other layers of its kind",
                  config.where(), layer, here.head_dim, here.kv_heads, wanted.head_dim,
                  wanted.kv_heads);
    if (full) first = here;
  }
  (void)layers.finish(UnknownFields::refused);
  model.full = first.value_or(FullAttention{});
}

void read_full_attention(HfConfig& config, ModelConfig& model) {
  const bool shared = config.boolean("attention_k_eq_v", false);
  if (config.has("per_layer_config")) {
    read_per_layer_config(config, model);
    config.ignore({"global_head_dim", "num_global_key_value_heads"});
  } else {
    model.full.head_dim = config.integer("global_head_dim", kFullHeadDim);
    const int64_t groups = config.integer("num_global_key_value_heads", model.kv_heads);
    model.full.kv_heads = shared ? groups : model.kv_heads;
  }
  VIADUCT_CHECK(ConfigError, model.full.head_dim >= 0 && model.full.kv_heads >= 0,
                "{}: heads of {} and {} key-value heads in full_attention, expected at least 1",
                config.where(), model.full.head_dim, model.full.kv_heads);
  if (model.full.head_dim == model.head_dim) model.full.head_dim = 0;
  if (model.full.kv_heads == model.kv_heads) model.full.kv_heads = 0;
  model.full.values_from_keys = shared;
}

ModelConfig read_gemma4_text(HfConfig& config) {
  refuse_other_layers(config);
  ModelConfig model =
      read_llama_like(config, kHeadDim, 0, {.base = kBase, .window_base = kWindowBase});
  const int64_t window = config.integer_or_none("sliding_window", 512);
  model.windows = windows_by_layer(
      config, model.layers, window,
      [](int64_t layer, int64_t every) { return (layer + 1) % every != 0; }, kPattern);
  model.windows.back() = 0;  // whatever the file says, in Hugging Face's code too
  read_full_attention(config, model);
  if (!config.has("rope_parameters")) {
    model.rotary.scaling = RopeScalingKind::proportional;
    model.rotary.part = kPart;
    model.window_rotary_base = kWindowBase;
  }
  model.rotary.width = model.rotary_head_dim();
  model.activation = activation_from_hf(config, "hidden_activation", "gelu_pytorch_tanh");
  model.tied_embeddings = config.boolean("tie_word_embeddings", true);
  model.qkv_bias = model.projection_bias = config.boolean("attention_bias", false);
  model.logit_softcap = config.number("final_logit_softcapping", 0);
  VIADUCT_CHECK(ConfigError, model.logit_softcap > 0 || !config.has("final_logit_softcapping"),
                "{}: final_logit_softcapping is {}, expected more than 0, or null for none",
                config.where(), model.logit_softcap);
  model.attention_scale = 1;
  model.embedding_scale = std::sqrt(static_cast<double>(model.hidden));
  model.qk_norm = model.v_l2_norm = model.output_norms = model.output_scale = true;
  return model;
}

nlohmann::ordered_json write_gemma4_text(const ModelConfig& model) {
  FamilyChoices choices(model.family);
  choices.expect(model.full.kv_heads == 0 || model.full.values_from_keys,
                 "full_attention_num_query_groups",
                 "as many key-value heads in every layer without full_attention_values_from_keys",
                 model.full.kv_heads);
  choices.expect(!model.windows.empty() && model.windows.back() == 0, "window_layers",
                 "a last layer without a window", "one with a window");
  choices.throw_if_any();
  nlohmann::ordered_json json = write_llama_like(model);
  nlohmann::ordered_json full = json["rope_scaling"];
  if (full.is_null()) full = {{"rope_type", "default"}};
  full["rope_theta"] = model.rotary.base;
  const double window_base =
      model.window_rotary_base > 0 ? model.window_rotary_base : model.rotary.base;
  for (const char* field : {"rope_theta", "rope_scaling", "hidden_act"}) json.erase(field);
  json["rope_parameters"] = {
      {"full_attention", full},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", window_base}}}};
  json["hidden_activation"] = activation_to_hf(model.activation);
  json["attention_bias"] = model.qkv_bias;
  json["attention_k_eq_v"] = model.full.values_from_keys;
  json["global_head_dim"] = model.rotary_head_dim();
  json["num_global_key_value_heads"] = nullptr;
  if (model.full.kv_heads > 0) json["num_global_key_value_heads"] = model.full.kv_heads;
  json["final_logit_softcapping"] = nullptr;
  if (model.logit_softcap > 0) json["final_logit_softcapping"] = model.logit_softcap;
  json["hidden_size_per_layer_input"] = json["num_kv_shared_layers"] = 0;
  json["enable_moe_block"] = json["use_double_wide_mlp"] = false;
  write_layer_types(model, json);
  return json;
}

void resolve_gemma4_text(ModelFields& fields) {
  fields.layernorm_zero_centered_gamma.resolve(false);
  resolve_gemma(fields);
  fields.post_sublayer_norm.resolve(true);
  fields.qk_layernorm.resolve(true);
  fields.v_l2_norm.resolve(true);
  fields.block_output_scale.resolve(true);
  fields.softmax_scale.resolve(1.0);
  fields.rotary_base.resolve(kBase);
  fields.window_rotary_base.resolve(kWindowBase);
}

TensorNames gemma4_names() {
  TensorNames names = gemma_norm_names();
  names.output_scale = "model.layers.{}.layer_scalar";
  return names;
}

}  // namespace

ModelFamily gemma4_text() {
  ModelFamily family{"gemma4_text",     "Gemma4ForCausalLM", read_gemma4_text,
                     write_gemma4_text, gemma4_names(),      resolve_gemma4_text};
  family.since_version5 = true;
  return family;
}

}  // namespace viaduct::families
