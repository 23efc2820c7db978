// Rotary positions as config.json describes them: base, rotated part of a head, scalings.

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"

namespace viaduct::families {
namespace {

double yarn_mscale(double factor, double m) {
  return factor <= 1 ? 1.0 : 0.1 * m * std::log(factor) + 1.0;
}

double yarn_attention_factor(HfConfig& scaling, const RotarySpec& rotary) {
  if (scaling.has("attention_factor")) return scaling.number("attention_factor");
  const double m = rotary.mscale, all = rotary.mscale_all_dim;
  return m != 0 && all != 0 ? yarn_mscale(rotary.factor, m) / yarn_mscale(rotary.factor, all)
                            : yarn_mscale(rotary.factor, 1);
}

/// LongRoPE's lists, and the factor of cos and sin: sqrt(1 + ln(stretch) / ln(original length)).
void read_longrope(HfConfig& scaling, int64_t max_positions, RotarySpec& rotary) {
  rotary.scaling = RopeScalingKind::longrope;
  const int64_t unsaid =
      rotary.original_max_positions > 0 ? rotary.original_max_positions : max_positions;
  rotary.original_max_positions = scaling.integer("original_max_position_embeddings", unsaid);
  VIADUCT_CHECK(ConfigError, rotary.original_max_positions >= 2,
                "{}: original_max_position_embeddings is {}, expected at least 2", scaling.where(),
                rotary.original_max_positions);
  const auto pairs = static_cast<size_t>(std::max<int64_t>(rotary.width, 0) / 2);
  const auto factors = [&](const char* field) {
    std::vector<double> list = scaling.numbers(field);
    const bool fits = list.size() == pairs && std::ranges::all_of(list, [](double factor) {
                        return factor > 0 && std::isfinite(factor);
                      });
    VIADUCT_CHECK(ConfigError, fits, "{}: {}: expected {} numbers above 0, one for each pair",
                  scaling.where(), field, pairs);
    return list;
  };
  rotary.short_factors = factors("short_factor");
  rotary.long_factors = factors("long_factor");
  const auto original = static_cast<double>(rotary.original_max_positions);
  const double stretch = scaling.number("factor", static_cast<double>(max_positions) / original);
  rotary.attention_factor = scaling.number(
      "attention_factor", stretch <= 1 ? 1 : std::sqrt(1 + std::log(stretch) / std::log(original)));
}

}  // namespace

double latent_attention_scale(const ModelConfig& model) {
  const RotarySpec& rotary = model.rotary;
  const double scale = 1 / std::sqrt(static_cast<double>(model.head_dim));
  if (rotary.scaling != RopeScalingKind::yarn || rotary.mscale_all_dim == 0) return scale;
  const double m = yarn_mscale(rotary.factor, rotary.mscale_all_dim);
  return scale * m * m;
}

namespace {

/// Of a head's dims, those that rotate: as Hugging Face's code, the integer part.
int64_t rotated_dims(const HfConfig& config, int64_t head_dim, double part) {
  VIADUCT_CHECK(ConfigError, part > 0 && part <= 1,
                "{}: partial_rotary_factor is {}, expected more than 0, at most 1", config.where(),
                part);
  return static_cast<int64_t>(static_cast<double>(head_dim) * part);
}

void refuse_alpha(HfConfig& scaling) {
  VIADUCT_CHECK(ConfigError, !scaling.has("alpha"),
                "{}: alpha is not supported in this family (Hugging Face's code reads it in "
                "hunyuan_v1_dense alone)",
                scaling.where());
}

/// `rope_parameters` with an object for each kind of layer, as transformers 5 writes it.
void read_rope_by_layer_kind(HfConfig& kinds, double window_base, ModelConfig& model) {
  if (kinds.has("full_attention")) {
    HfConfig full = kinds.object("full_attention");
    refuse_alpha(full);
    read_rope_scaling(full, model.max_positions, model.rotary);
  }
  RotarySpec windowed{.width = model.head_dim, .base = window_base};
  if (kinds.has("sliding_attention")) {
    HfConfig sliding = kinds.object("sliding_attention");
    read_rope_scaling(sliding, model.max_positions, windowed);
    VIADUCT_CHECK(ConfigError, windowed.scaling == RopeScalingKind::none,
                  "{}: rope_type {} is not supported in sliding_attention (supported: default)",
                  kinds.where(), rope_type(sliding));
  }
  model.window_rotary_base = windowed.base;
  (void)kinds.finish(UnknownFields::refused);
}

/// Fields of an attention temperature, which stand among those of rotary positions (Ministral 3).
void read_temperature(HfConfig& scaling, ModelConfig& model) {
  // The model's, once more; without a temperature neither has an effect here.
  scaling.ignore({"max_position_embeddings", "original_max_position_embeddings"});
  model.temperature = {};
  VIADUCT_CHECK(ConfigError, scaling.has("llama_4_scaling_beta"),
                "{}: llama_4_scaling_beta is missing; expected a number, 0 for no attention "
                "temperature (Hugging Face's code has no default)",
                scaling.where());
  const double scale = scaling.number("llama_4_scaling_beta");
  if (scale == 0) return;
  model.temperature = {scale, scaling.integer("original_max_position_embeddings")};
}

/// The factor of cos and sin that LongRoPE's lists name themselves (Phi 3.5 MoE), in place of one
/// that follows from lengths; 0: there is no scaling.
double read_magnitude(HfConfig& scaling) {
  if (rope_type(scaling) == "default") return 0;
  const double of_short = scaling.number("short_mscale"), of_long = scaling.number("long_mscale");
  VIADUCT_CHECK(ConfigError, of_short > 0 && of_short == of_long,
                "{}: short_mscale {} and long_mscale {}, expected the same number above 0 in both",
                scaling.where(), of_short, of_long);
  return of_short;
}

/// `rope_scaling` or `rope_parameters`, if it is there.
void read_rope_field(HfConfig& config, std::string_view field, const RotaryDefaults& defaults,
                     ModelConfig& model) {
  if (!config.has(field)) return;
  HfConfig scaling = config.object(field);
  if (defaults.window_base > 0) {
    if (scaling.has("full_attention") || scaling.has("sliding_attention"))
      return read_rope_by_layer_kind(scaling, defaults.window_base, model);
    VIADUCT_CHECK(ConfigError, field != "rope_parameters",
                  "{}: in this family rope_parameters has the members full_attention and "
                  "sliding_attention, an object for each kind of layer, and found is neither "
                  "(Hugging Face's code reads nothing else in it)",
                  config.where());
  }
  if (defaults.part > 0 && scaling.has("partial_rotary_factor")) {
    const double part = scaling.number("partial_rotary_factor");
    model.rotary.width = rotated_dims(config, model.head_dim, part);
  }
  if (!defaults.alpha) refuse_alpha(scaling);
  if (defaults.temperature) read_temperature(scaling, model);
  const double magnitude = defaults.magnitudes ? read_magnitude(scaling) : 0;
  read_rope_scaling(scaling, model.max_positions, model.rotary);
  if (magnitude > 0) model.rotary.attention_factor = magnitude;
}

}  // namespace

void read_rotary(HfConfig& config, const RotaryDefaults& defaults, ModelConfig& model) {
  model.rotary.base = config.number("rope_theta", defaults.base);
  model.rotary.width = model.head_dim;
  model.rotary.interleaved = config.boolean("rotary_interleaved", defaults.interleaved);
  if (defaults.original_length)
    model.rotary.original_max_positions =
        config.integer("original_max_position_embeddings", model.max_positions);
  if (defaults.part > 0) {
    const double part = config.number("partial_rotary_factor", defaults.part);
    model.rotary.width = rotated_dims(config, model.head_dim, part);
  }
  ModelConfig reversed = model;
  read_rope_field(config, "rope_scaling", defaults, model);
  read_rope_field(config, "rope_parameters", defaults, model);
  if (!config.has("rope_scaling") || !config.has("rope_parameters")) return;
  // Neither may undo what the other says.
  read_rope_field(config, "rope_parameters", defaults, reversed);
  read_rope_field(config, "rope_scaling", defaults, reversed);
  const bool agree = model.rotary.base == reversed.rotary.base &&
                     model.rotary.width == reversed.rotary.width &&
                     write_rope_scaling(model.rotary) == write_rope_scaling(reversed.rotary);
  VIADUCT_CHECK(ConfigError, agree,
                "{}: rope_scaling and rope_parameters differ; expected one of them, or the same in "
                "both",
                config.where());
}

void write_rotated_part(const ModelConfig& model, nlohmann::ordered_json& json) {
  const auto width = static_cast<double>(model.rotary.width),
             head = static_cast<double>(model.head_dim);
  double part = width / head;
  // Readers take the integer part of the product.
  if (static_cast<int64_t>(head * part) < model.rotary.width) part = std::nextafter(part, 2.0);
  json["partial_rotary_factor"] = part;
}

std::string rope_type(HfConfig& scaling) {
  return scaling.has("rope_type") ? scaling.text("rope_type") : scaling.text("type", "default");
}

void refuse_all_but_longrope(HfConfig& config, std::string_view family) {
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(field)) continue;
    HfConfig scaling = config.object(field);
    const std::string type = rope_type(scaling);
    VIADUCT_CHECK(ConfigError, type == "default" || type == "longrope" || type == "su",
                  "{}: {}: rope_type {} is not supported in family {} (supported: default, "
                  "longrope)",
                  config.where(), field, type, family);
  }
}

void read_rope_scaling(HfConfig& scaling, int64_t max_positions, RotarySpec& rotary) {
  const std::string type = rope_type(scaling);
  scaling.ignore({"type", "rope_type"});
  rotary.base = scaling.number("rope_theta", rotary.base);
  if (type == "default") {
    rotary.scaling = RopeScalingKind::none;
    scaling.ignore({"factor"});
  } else if (type == "linear") {
    rotary.scaling = RopeScalingKind::linear;
    rotary.factor = scaling.number("factor");
  } else if (type == "llama3") {
    rotary.scaling = RopeScalingKind::llama3;
    rotary.factor = scaling.number("factor");
    rotary.low_frequency_factor = scaling.number("low_freq_factor");
    rotary.high_frequency_factor = scaling.number("high_freq_factor");
    rotary.original_max_positions = scaling.integer("original_max_position_embeddings");
  } else if (type == "yarn") {
    rotary.scaling = RopeScalingKind::yarn;
    const bool original = scaling.has("original_max_position_embeddings");
    rotary.original_max_positions =
        scaling.integer("original_max_position_embeddings", max_positions);
    rotary.factor =
        scaling.number("factor", original ? static_cast<double>(max_positions) /
                                                static_cast<double>(rotary.original_max_positions)
                                          : 1.0);
    rotary.beta_fast = scaling.number("beta_fast", 32);
    rotary.beta_slow = scaling.number("beta_slow", 1);
    rotary.truncate = scaling.boolean("truncate", true);
    rotary.mscale = scaling.number("mscale", 0);
    rotary.mscale_all_dim = scaling.number("mscale_all_dim", 0);
    rotary.attention_factor = yarn_attention_factor(scaling, rotary);
  } else if (type == "dynamic") {
    rotary.scaling = RopeScalingKind::dynamic;
    const bool raised = scaling.has("alpha");
    rotary.alpha = scaling.number("alpha", 0);
    rotary.factor = scaling.number("factor", raised ? std::optional(1.0) : std::nullopt);
    // Beside alpha in Hunyuan's files, read by no code.
    if (raised) scaling.ignore({"beta_fast", "beta_slow", "mscale", "mscale_all_dim"});
  } else if (type == "proportional") {
    rotary.scaling = RopeScalingKind::proportional;
    rotary.factor = scaling.number("factor", 1);
    rotary.part = scaling.number("partial_rotary_factor", 1);
    VIADUCT_CHECK(ConfigError, rotary.part >= 0 && rotary.part <= 1,
                  "{}: partial_rotary_factor is {}, expected 0 to 1", scaling.where(), rotary.part);
  } else if (type == "longrope" || type == "su") {  // the second: in the first files of Phi 3
    read_longrope(scaling, max_positions, rotary);
  } else {
    fail<ConfigError>(
        "{}: rope_type {} is not supported (supported: default, dynamic, linear, llama3, longrope, "
        "proportional, yarn)",
        scaling.where(), type);
  }
  (void)scaling.finish(UnknownFields::refused);
}

nlohmann::ordered_json write_rope_scaling(const RotarySpec& rotary) {
  switch (rotary.scaling) {
    case RopeScalingKind::none:
      return nullptr;
    case RopeScalingKind::linear:
      return {{"rope_type", "linear"}, {"factor", rotary.factor}};
    case RopeScalingKind::proportional:
      return {{"rope_type", "proportional"},
              {"partial_rotary_factor", rotary.part},
              {"factor", rotary.factor}};
    case RopeScalingKind::dynamic: {
      nlohmann::ordered_json json{{"rope_type", "dynamic"}, {"factor", rotary.factor}};
      if (rotary.alpha != 0) json["alpha"] = rotary.alpha;
      return json;
    }
    case RopeScalingKind::llama3:
      return {{"rope_type", "llama3"},
              {"factor", rotary.factor},
              {"low_freq_factor", rotary.low_frequency_factor},
              {"high_freq_factor", rotary.high_frequency_factor},
              {"original_max_position_embeddings", rotary.original_max_positions}};
    case RopeScalingKind::yarn: {
      nlohmann::ordered_json json{
          {"rope_type", "yarn"},
          {"factor", rotary.factor},
          {"original_max_position_embeddings", rotary.original_max_positions},
          {"beta_fast", rotary.beta_fast},
          {"beta_slow", rotary.beta_slow},
          {"truncate", rotary.truncate},
          {"attention_factor", rotary.attention_factor}};
      if (rotary.mscale != 0) json["mscale"] = rotary.mscale;
      if (rotary.mscale_all_dim != 0) json["mscale_all_dim"] = rotary.mscale_all_dim;
      return json;
    }
    case RopeScalingKind::longrope:
      return {{"rope_type", "longrope"},
              {"short_factor", rotary.short_factors},
              {"long_factor", rotary.long_factors},
              {"original_max_position_embeddings", rotary.original_max_positions},
              {"attention_factor", rotary.attention_factor}};
  }
  return nullptr;
}

}  // namespace viaduct::families
