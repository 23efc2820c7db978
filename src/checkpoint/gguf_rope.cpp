#include "checkpoint/gguf_rope.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "tensor/tensor.h"

namespace viaduct {
namespace {

using Json = nlohmann::ordered_json;

// Ours: the parameters that rope_freqs.weight was computed from, which GGUF has no keys for.
constexpr const char* kLlama3Scaling = "viaduct.rope_scaling_llama3";

/// YaRN's scale of cos and sin as llama.cpp computes it, before its attn_factor.
double yarn_scale(double factor) {
  return factor <= 1 ? 1 : 0.1 * std::log(factor) + 1;
}

/// The parameters of llama3's scaling that give these factors: those that we wrote, or those of the
/// published models (Llama 3.1 to 3.3), which share all but `factor`.
Json llama3_scaling(const GgufKeys& keys, const Tensor& factors, RotarySpec rotary) {
  const auto* stored = factors.data<float>();
  const int64_t pairs = factors.elements();
  const auto& ours = keys.numbers(kLlama3Scaling);
  rotary.scaling = RopeScalingKind::llama3;
  if (ours.size() == 4) {
    rotary.factor = ours[0];
    rotary.low_frequency_factor = ours[1];
    rotary.high_frequency_factor = ours[2];
    rotary.original_max_positions = static_cast<int64_t>(std::clamp(ours[3], 0.0, 1e9));
  } else {
    rotary.factor = pairs > 0 ? *std::max_element(stored, stored + pairs) : 0;
    rotary.low_frequency_factor = 1;
    rotary.high_frequency_factor = 4;
    rotary.original_max_positions = 8192;
  }
  const bool sound = rotary.factor >= 1 && std::isfinite(rotary.factor) &&
                     rotary.original_max_positions >= 1 && rotary.low_frequency_factor > 0 &&
                     rotary.high_frequency_factor > rotary.low_frequency_factor &&
                     pairs == rotary.width / 2;
  bool same = sound;
  if (sound) {
    const Tensor computed = gguf_rope_factors(rotary);
    for (int64_t i = 0; i < pairs; ++i)
      same = same && std::fabs(computed.data<float>()[i] - stored[i]) <= 1e-4f * stored[i];
  }
  VIADUCT_CHECK(ConfigError, same,
                "{}: {} are not the factors of a known llama3 scaling of rotary positions",
                keys.where(), kRopeFactors);
  return {{"rope_type", "llama3"},
          {"factor", rotary.factor},
          {"low_freq_factor", rotary.low_frequency_factor},
          {"high_freq_factor", rotary.high_frequency_factor},
          {"original_max_position_embeddings", rotary.original_max_positions}};
}

}  // namespace

Tensor gguf_rope_factors(const RotarySpec& rotary) {
  RotarySpec plain = rotary;
  plain.scaling = RopeScalingKind::none;
  const auto before = rotary_frequencies(plain), after = rotary_frequencies(rotary);
  Tensor factors = host_tensor(DType::f32, {rotary.width / 2});
  for (size_t i = 0; i < before.size(); ++i) {
    factors.data<float>()[i] =
        static_cast<float>(static_cast<double>(before[i]) / static_cast<double>(after[i]));
  }
  return factors;
}

void add_gguf_rope(GgufHeadWriter& head, const std::string& prefix, const RotarySpec& rotary) {
  head.add_u32(prefix + "rope.dimension_count", rotary.width);
  head.add_f32(prefix + "rope.freq_base", rotary.base);
  switch (rotary.scaling) {
    case RopeScalingKind::none:
      return;
    case RopeScalingKind::dynamic:  // up to context_length it scales nothing, and GGUF has no name
      return;
    case RopeScalingKind::llama3:
      head.add_f32s(kLlama3Scaling, {static_cast<float>(rotary.factor),
                                     static_cast<float>(rotary.low_frequency_factor),
                                     static_cast<float>(rotary.high_frequency_factor),
                                     static_cast<float>(rotary.original_max_positions)});
      return;
    case RopeScalingKind::linear:
      head.add_text(prefix + "rope.scaling.type", "linear");
      head.add_f32(prefix + "rope.scaling.factor", rotary.factor);
      return;
    case RopeScalingKind::yarn:
      head.add_text(prefix + "rope.scaling.type", "yarn");
      head.add_f32(prefix + "rope.scaling.factor", rotary.factor);
      head.add_u32(prefix + "rope.scaling.original_context_length", rotary.original_max_positions);
      head.add_f32(prefix + "rope.scaling.attn_factor",
                   rotary.attention_factor / yarn_scale(rotary.factor));
      head.add_f32(prefix + "rope.scaling.yarn_beta_fast", rotary.beta_fast);
      head.add_f32(prefix + "rope.scaling.yarn_beta_slow", rotary.beta_slow);
      return;
    case RopeScalingKind::longrope:
    case RopeScalingKind::proportional:
      fail<ConfigError>("GGUF: rope_type {} cannot be converted (linear, llama3 and yarn can)",
                        rotary.scaling == RopeScalingKind::longrope ? "longrope" : "proportional");
  }
}

nlohmann::ordered_json rope_scaling_of_gguf(const GgufKeys& keys, const std::string& prefix,
                                            const Tensor& factors, const RotarySpec& rotary) {
  if (factors) return llama3_scaling(keys, factors, rotary);
  const std::string type = keys.text(prefix + "rope.scaling.type", "none");
  if (type == "none") return nullptr;
  const double factor = keys.number(prefix + "rope.scaling.factor", 1);
  if (type == "linear") return {{"rope_type", "linear"}, {"factor", factor}};
  VIADUCT_CHECK(ConfigError, type == "yarn",
                "{}: rope.scaling.type {} is not supported (supported: none, linear, yarn)",
                keys.where(), shown_name(type));
  return {{"rope_type", "yarn"},
          {"factor", factor},
          {"original_max_position_embeddings",
           keys.integer(prefix + "rope.scaling.original_context_length")},
          {"beta_fast", keys.number(prefix + "rope.scaling.yarn_beta_fast", 32)},
          {"beta_slow", keys.number(prefix + "rope.scaling.yarn_beta_slow", 1)},
          {"attention_factor",
           keys.number(prefix + "rope.scaling.attn_factor", 1) * yarn_scale(factor)}};
}

}  // namespace viaduct
