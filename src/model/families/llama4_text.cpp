// Llama 4 (2025), the text model: Llama with attention in chunks, of which every fourth layer sees
// the whole text without rotary positions and scales queries by their position instead; norms
// without weights on queries and keys; an expert for each token, whose input is weighted, beside
// one for all tokens.

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kBase = 500000, kEpsilon = 1e-5, kTemperature = 0.1;
constexpr int64_t kChunk = 8192, kTemperatureLength = 8192, kHeadDim = 128, kExperts = 16;
constexpr const char *kChunked = "chunked_attention", *kFull = "full_attention";

/// Where the file does not list them, layers with rotary positions have the chunks.
std::vector<int64_t> read_chunks(HfConfig& config, const ModelConfig& model) {
  const int64_t chunk = config.integer_or_none("attention_chunk_size", kChunk);
  VIADUCT_CHECK(ConfigError, chunk >= 0, "{}: attention_chunk_size {}: expected at least 1",
                config.where(), chunk);
  const std::vector<bool> listed = read_layer_types(config, model.layers, kChunked);
  std::vector<int64_t> chunks;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const bool cut = listed.empty() ? model.rotates(layer) : listed[static_cast<size_t>(layer)];
    VIADUCT_CHECK(ConfigError, listed.empty() || !cut || chunk > 0,
                  "{}: layer_types: layer {} has {}, but attention_chunk_size is null",
                  config.where(), layer, kChunked);
    chunks.push_back(cut ? chunk : 0);
  }
  if (std::ranges::count(chunks, 0) == model.layers) chunks.clear();
  return chunks;
}

/// 1 for a layer with experts.
std::vector<int64_t> read_expert_layers(HfConfig& config, int64_t layers) {
  const int64_t every = read_interval(config, "interleave_moe_layer_step", 1);
  std::vector<int64_t> routed(static_cast<size_t>(layers), 0);
  if (!config.has("moe_layers")) {
    for (int64_t i = every - 1; i < layers; i += every) routed[static_cast<size_t>(i)] = 1;
    return routed;
  }
  for (const int64_t layer : config.integers("moe_layers")) {
    VIADUCT_CHECK(ConfigError, layer >= 0 && layer < layers,
                  "{}: moe_layers: layer {}, expected 0 to {}", config.where(), layer, layers - 1);
    routed[static_cast<size_t>(layer)] = 1;
  }
  return routed;
}

void read_experts_of(HfConfig& config, ModelConfig& model) {
  MoeConfig& moe = model.moe;
  moe.experts = read_experts(config, "num_local_experts", kExperts);
  moe.routing = {.score = ScoreFunction::sigmoid,
                 .topk = config.integer("num_experts_per_tok", 1),
                 .normalize = false};
  VIADUCT_CHECK(ConfigError, moe.routing.topk == 1,
                "{}: num_experts_per_tok {} is not supported (supported: 1)", config.where(),
                moe.routing.topk);
  moe.weighs_input = true;
  moe.feed_forward = moe.shared_feed_forward = model.feed_forward;
  model.feed_forward = config.integer("intermediate_size_mlp", 16384);
  moe.layers = read_expert_layers(config, model.layers);
  VIADUCT_CHECK(ConfigError, std::ranges::find(moe.layers, 1) != moe.layers.end(),
                "{}: moe_layers: no layer has experts; expected at least one", config.where());
  read_router_training(config, moe);
}

ModelConfig read_llama4_text(HfConfig& config) {
  ModelConfig model = read_llama_like(config, kHeadDim, -1, {.base = kBase, .interleaved = true});
  model.norm_eps = config.number("rms_norm_eps", kEpsilon);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.qkv_bias = model.projection_bias = config.boolean("attention_bias", false);
  model.no_rope = read_layers_without_rotary(config, model.layers);
  model.qk_l2_norm = config.boolean("use_qk_norm", true);
  model.chunks = read_chunks(config, model);
  const AttentionTemperature temperature = temperature_without_rotary(
      config.number("attn_scale", kTemperature), config.integer("floor_scale", kTemperatureLength));
  VIADUCT_CHECK(ConfigError, temperature.length >= 1, "{}: floor_scale {}: expected at least 1",
                config.where(), temperature.length);
  if (config.switched_on("attn_temperature_tuning", true)) model.no_rope_temperature = temperature;
  read_experts_of(config, model);
  config.ignore({"for_llm_compressor"});  // how its publishers quantize it
  return model;
}

nlohmann::ordered_json write_llama4_text(const ModelConfig& model) {
  const MoeConfig& moe = model.moe;
  FamilyChoices choices(model.family);
  choices.expect(moe.any(), "num_moe_experts", "experts", "null");
  choices.expect(moe.weighs_input, "moe_apply_probs_on_input", "true", "false");
  choices.expect(moe.routing.score == ScoreFunction::sigmoid, "moe_router_score_function",
                 "sigmoid", "another one");
  choices.expect(moe.shared_feed_forward == moe.feed_forward, "moe_shared_expert_intermediate_size",
                 fmt::format("moe_ffn_hidden_size = {}", moe.feed_forward),
                 moe.shared_feed_forward);
  choices.expect(!moe.shared_gate, "moe_shared_expert_gate", "false", "true");
  choices.throw_if_any();
  nlohmann::ordered_json json = write_llama_like(model, {.interleaved = true});
  json["intermediate_size"] = moe.feed_forward;
  json["intermediate_size_mlp"] = model.feed_forward;
  json["attention_bias"] = model.qkv_bias;
  json["use_qk_norm"] = model.qk_l2_norm;
  json["attention_chunk_size"] = nullptr;
  if (model.attention_chunk() > 0) json["attention_chunk_size"] = model.attention_chunk();
  auto types = nlohmann::ordered_json::array(), routed = nlohmann::ordered_json::array();
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    types.push_back(model.chunk_of(layer) > 0 ? kChunked : kFull);
    if (moe.routes(layer)) routed.push_back(layer);
  }
  json["layer_types"] = types;
  write_layers_without_rotary(model, json);
  const AttentionTemperature& temperature = model.no_rope_temperature;
  json["attn_temperature_tuning"] = temperature.any();
  if (temperature.any()) {
    json["attn_scale"] = temperature.scale;
    json["floor_scale"] = temperature.length;
  }
  json["num_local_experts"] = moe.experts;
  json["num_experts_per_tok"] = moe.routing.topk;
  json["moe_layers"] = routed;
  write_router_training(moe, json);
  return json;
}

TensorNames names() {
  TensorNames names = llama_names();
  names.gate = "model.layers.{}.feed_forward.gate_proj";
  names.up = "model.layers.{}.feed_forward.up_proj";
  names.down = "model.layers.{}.feed_forward.down_proj";
  names.router = "model.layers.{}.feed_forward.router";
  // One tensor for gate and up (parameter_maker.h: fuses_experts).
  names.expert_up = "model.layers.{}.feed_forward.experts.{}.gate_up_proj";
  names.expert_down = "model.layers.{}.feed_forward.experts.{}.down_proj";
  names.expert_halves = true;
  names.shared_gate = "model.layers.{}.feed_forward.shared_expert.gate_proj";
  names.shared_up = "model.layers.{}.feed_forward.shared_expert.up_proj";
  names.shared_down = "model.layers.{}.feed_forward.shared_expert.down_proj";
  return names;
}

void resolve_llama4_text(ModelFields& fields) {
  fields.rotary_base.resolve(kBase);
  fields.rotary_interleaved.resolve(true);
  fields.qk_l2_norm.resolve(true);
  fields.attention_chunk_size.resolve(std::optional(kChunk));
  fields.no_rope_temperature_scale.resolve(kTemperature);
  MoeFields& moe = fields.moe;
  moe.num_moe_experts.resolve(kExperts);
  moe.moe_router_topk.resolve(1);
  moe.moe_router_score_function.resolve(ScoreFunction::sigmoid);
  moe.moe_apply_probs_on_input.resolve(true);
  moe.moe_ffn_hidden_size.resolve(8192);
  moe.moe_shared_expert_intermediate_size.resolve(moe.moe_ffn_hidden_size.value());
  if (fields.num_layers.is_auto()) return;
  std::vector<int64_t> plain, chunked;
  for (int64_t i = 0; i < fields.num_layers.value(); ++i) {
    plain.push_back(i % 4 == 3);
    chunked.push_back(i % 4 != 3);
  }
  fields.no_rope_freq.resolve(plain);
  fields.attention_chunk_layers.resolve(chunked);
}

}  // namespace

ModelFamily llama4_text() {
  return {"llama4_text", "Llama4ForCausalLM", read_llama4_text,       write_llama4_text,
          names(),       resolve_llama4_text, RotaryPairs::neighbours};
}

}  // namespace viaduct::families
