#include "checkpoint/gguf_config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "checkpoint/gguf_rope.h"
#include "checkpoint/gguf_weights.h"
#include "model/family.h"
#include "model/further_fields.h"
#include "tensor/tensor.h"

namespace viaduct {
namespace {

using Json = nlohmann::ordered_json;

/// The scale of scores that llama.cpp uses for Gemma 2; it does not read one from the file.
double gemma2_scale(int64_t layers, int64_t hidden, int64_t heads, int64_t head_dim) {
  const bool largest = layers == 46;  // Gemma 2 27B
  return 1 /
         std::sqrt(static_cast<double>(largest ? hidden / std::max<int64_t>(heads, 1) : head_dim));
}

/// The windows of layers, 0 where one is as long as any text.
std::vector<int64_t> in_context(std::vector<int64_t> windows, int64_t positions) {
  for (int64_t& window : windows)
    if (window >= positions) window = 0;
  return windows;
}

const GgufTensor* tensor_of(const GgufHead& head, std::string_view name) {
  for (const GgufTensor& tensor : head.tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

Json gpt2_config(const GgufKeys& keys) {
  Json json;
  json["n_layer"] = keys.integer("gpt2.block_count");
  json["n_embd"] = keys.integer("gpt2.embedding_length");
  json["n_head"] = keys.integer("gpt2.attention.head_count");
  json["n_inner"] = keys.integer("gpt2.feed_forward_length");
  json["n_positions"] = keys.integer("gpt2.context_length");
  json["layer_norm_epsilon"] = keys.number("gpt2.attention.layer_norm_epsilon");
  return json;
}

Json llama_like_config(const GgufHead& head, const std::string& architecture,
                       const Tensor& factors) {
  const GgufKeys& keys = head.keys;
  const std::string prefix = architecture + ".";
  const int64_t layers = keys.integer(prefix + "block_count");
  const int64_t hidden = keys.integer(prefix + "embedding_length");
  const int64_t heads = keys.integer(prefix + "attention.head_count");
  VIADUCT_CHECK(IoError, heads >= 1 && heads <= hidden,
                "{}: {} heads in layers of width {} are impossible", keys.where(), heads, hidden);
  RotarySpec rotary;
  const int64_t head_dim = keys.integer(prefix + "attention.key_length", hidden / heads);
  rotary.width = keys.integer(prefix + "rope.dimension_count", head_dim);
  rotary.base = keys.number(prefix + "rope.freq_base", 10000);
  VIADUCT_CHECK(ConfigError,
                keys.integer(prefix + "attention.value_length", head_dim) == head_dim &&
                    rotary.width == head_dim && head_dim >= 1 && head_dim <= 1 << 16,
                "{}: heads of {} dims with values of {} and {} rotated dims are not supported "
                "(supported: three equal sizes)",
                keys.where(), head_dim, keys.integer(prefix + "attention.value_length", head_dim),
                rotary.width);
  Json json;
  json["num_hidden_layers"] = layers;
  json["hidden_size"] = hidden;
  json["intermediate_size"] = keys.integer(prefix + "feed_forward_length");
  json["num_attention_heads"] = heads;
  json["num_key_value_heads"] = keys.integer(prefix + "attention.head_count_kv", heads);
  json["head_dim"] = head_dim;
  json["max_position_embeddings"] = keys.integer(prefix + "context_length");
  json["rms_norm_eps"] = keys.number(prefix + "attention.layer_norm_rms_epsilon");
  json["rope_theta"] = rotary.base;
  json["rope_scaling"] = rope_scaling_of_gguf(keys, prefix, factors, rotary);
  if (architecture.starts_with("gemma")) {
    json["hidden_activation"] = "gelu_pytorch_tanh";
  } else {
    json["hidden_act"] = "silu";
  }
  if (architecture == "llama") {
    json["attention_bias"] = tensor_of(head, "blk.0.attn_q.bias") != nullptr;
    json["mlp_bias"] = tensor_of(head, "blk.0.ffn_up.bias") != nullptr;
  }
  if (architecture == "gemma2") {
    const double scale =
        keys.number(prefix + "attention.scale", gemma2_scale(layers, hidden, heads, head_dim));
    VIADUCT_CHECK(IoError, scale > 0, "{}: {}attention.scale is {}", keys.where(), prefix, scale);
    const double scalar = 1 / (scale * scale);
    // FP32 keeps 24 bits of an inverse root.
    const bool whole = std::fabs(scalar - std::round(scalar)) < 1e-5 * scalar;
    json["query_pre_attn_scalar"] = whole ? std::round(scalar) : scalar;
    json["sliding_window"] = keys.integer(prefix + "attention.sliding_window");
    for (const auto& [field, key] :
         {std::pair{"attn_logit_softcapping", "attn_logit_softcapping"},
          std::pair{"final_logit_softcapping", "final_logit_softcapping"}}) {
      json[field] = nullptr;
      if (const double cap = keys.number(prefix + key, 0); cap > 0) json[field] = cap;
    }
  }
  return json;
}

}  // namespace

void add_gguf_config(GgufHeadWriter& head, const ModelConfig& model) {
  const std::string architecture = gguf_architecture(model.family), prefix = architecture + ".";
  VIADUCT_CHECK(ConfigError,
                model.positions != PositionKind::rotary || model.rotary.width == model.head_dim,
                "GGUF: heads of {} dims with {} of them rotated cannot be converted",
                model.head_dim, model.rotary.width);
  VIADUCT_CHECK(ConfigError, !model.rotary.interleaved || architecture == "llama",
                "GGUF: rotary_interleaved is true, and llama.cpp rotates halves in {}",
                architecture);
  head.add_text("general.architecture", architecture);
  head.add_text("general.type", "model");
  head.add_u32(prefix + "vocab_size", model.vocabulary);
  head.add_u32(prefix + "context_length", model.max_positions);
  head.add_u32(prefix + "embedding_length", model.hidden);
  head.add_u32(prefix + "block_count", model.layers);
  head.add_u32(prefix + "feed_forward_length", model.feed_forward);
  head.add_u32(prefix + "attention.head_count", model.heads);
  if (model.positions == PositionKind::learned) {
    head.add_f32(prefix + "attention.layer_norm_epsilon", model.norm_eps);
    return;
  }
  head.add_u32(prefix + "attention.head_count_kv", model.kv_heads);
  head.add_f32(prefix + "attention.layer_norm_rms_epsilon", model.norm_eps);
  head.add_u32(prefix + "attention.key_length", model.head_dim);
  head.add_u32(prefix + "attention.value_length", model.head_dim);
  add_gguf_rope(head, prefix, model.rotary);
  if (architecture == "gemma2") {
    head.add_f32(prefix + "attention.scale", model.attention_scale);
    const auto window = std::max_element(model.windows.begin(), model.windows.end());
    head.add_u32(prefix + "attention.sliding_window",
                 window != model.windows.end() && *window > 0 ? *window : model.max_positions);
    head.add_f32(prefix + "attn_logit_softcapping", model.attention_softcap);
    head.add_f32(prefix + "final_logit_softcapping", model.logit_softcap);
  }
}

std::string config_of_gguf(const GgufHead& head, const Tensor& rope_factors) {
  const GgufKeys& keys = head.keys;
  const std::string architecture = keys.text("general.architecture");
  const auto known = {"gemma", "gemma2", "gpt2", "llama", "qwen2", "qwen3"};
  VIADUCT_CHECK(
      ConfigError, std::find(known.begin(), known.end(), architecture) != known.end(),
      "{}: architecture {} is not supported (supported: gemma, gemma2, gpt2, llama, qwen2, "
      "qwen3)",
      keys.where(), shown_name(architecture));
  for (const char* experts : {".expert_count", ".expert_used_count"}) {
    VIADUCT_CHECK(ConfigError, keys.integer(architecture + experts, 0) == 0,
                  "{}: {}{} is {}: mixtures of experts are not supported", keys.where(),
                  architecture, experts, keys.integer(architecture + experts, 0));
  }
  const GgufTensor* embedding = tensor_of(head, "token_embd.weight");
  VIADUCT_CHECK(IoError, embedding != nullptr && embedding->shape.rank() == 2,
                "{}: token_embd.weight is missing, or no matrix", keys.where());
  // Names are made for each layer.
  const int64_t layers = keys.integer(architecture + ".block_count");
  VIADUCT_CHECK(IoError, layers >= 1 && layers <= static_cast<int64_t>(head.tensors.size()),
                "{}: {}.block_count is {} in a file of {} tensors", keys.where(), architecture,
                layers, head.tensors.size());
  Json json = architecture == "gpt2" ? gpt2_config(keys)
                                     : llama_like_config(head, architecture, rope_factors);
  json["model_type"] = architecture;
  json["vocab_size"] = embedding->shape[0];
  json["tie_word_embeddings"] = tensor_of(head, "output.weight") == nullptr;
  json["pad_token_id"] = nullptr;
  for (const auto& [field, key] : {std::pair{"bos_token_id", "tokenizer.ggml.bos_token_id"},
                                   std::pair{"eos_token_id", "tokenizer.ggml.eos_token_id"},
                                   std::pair{"pad_token_id", "tokenizer.ggml.padding_token_id"}}) {
    if (keys.has(key)) json[field] = keys.integer(key);
  }
  return write_hf_config(read_hf_config(json.dump(), keys.where()));
}

std::vector<std::string> check_gguf_config(const ModelConfig& model, const GgufHead& head,
                                           const Tensor& rope_factors) {
  ModelConfig said = read_hf_config(config_of_gguf(head, rope_factors), "config.json");
  // Properties that a file for inference does not state, or that the stored weights contain.
  said.family = model.family;
  said.embedding_dropout = model.embedding_dropout;
  said.residual_dropout = model.residual_dropout;
  said.attention_dropout = model.attention_dropout;
  said.init_std = model.init_std;
  said.rotary.interleaved = model.rotary.interleaved;
  said.norm_weight_offset = model.norm_weight_offset;
  // All numbers of a file are FP32.
  const auto near = [](double a, double b) { return std::fabs(a - b) <= 1e-6 * std::fabs(b); };
  const auto take_near = [&](double& number, double exact) {
    if (near(number, exact)) number = exact;
  };
  take_near(said.norm_eps, model.norm_eps);
  take_near(said.attention_scale, model.attention_scale);
  take_near(said.attention_softcap, model.attention_softcap);
  take_near(said.logit_softcap, model.logit_softcap);
  for (double RotarySpec::*number :
       {&RotarySpec::base, &RotarySpec::factor, &RotarySpec::low_frequency_factor,
        &RotarySpec::high_frequency_factor, &RotarySpec::beta_fast, &RotarySpec::beta_slow,
        &RotarySpec::attention_factor})
    take_near(said.rotary.*number, model.rotary.*number);
  if (said.rotary.attention_factor == model.rotary.attention_factor) {
    // Files have their result alone.
    said.rotary.mscale = model.rotary.mscale;
    said.rotary.mscale_all_dim = model.rotary.mscale_all_dim;
  }
  if (model.rotary.scaling == RopeScalingKind::dynamic && model.rotary.alpha == 0) {
    // Scales nothing in texts of up to context_length.
    said.rotary.scaling = model.rotary.scaling;
    said.rotary.factor = model.rotary.factor;
  }
  std::vector<std::string> notes;
  if (said.windows != model.windows) {
    const int64_t window = *std::max_element(model.windows.begin(), model.windows.end());
    if (in_context(said.windows, model.max_positions) !=
        in_context(model.windows, model.max_positions))
      notes.push_back(fmt::format(
          "GGUF: llama.cpp has no sliding windows as this model's ({} tokens): it computes another "
          "model for longer texts",
          window));
    said.windows = model.windows;
  }
  if (model.family == "gemma2" &&
      !near(gemma2_scale(model.layers, model.hidden, model.heads, model.head_dim),
            model.attention_scale)) {
    notes.push_back(fmt::format(
        "GGUF: llama.cpp computes Gemma 2's scale of scores from its sizes, as {:.6g}, and this "
        "model has {:.6g}: it computes another model",
        gemma2_scale(model.layers, model.hidden, model.heads, model.head_dim),
        model.attention_scale));
  }
  const std::string further = further_fields(model, said);
  VIADUCT_CHECK(ConfigError, further.empty(),
                "GGUF: a file of the architecture {} cannot express {}: llama.cpp would compute "
                "another model",
                gguf_architecture(model.family), further);
  return notes;
}

}  // namespace viaduct
