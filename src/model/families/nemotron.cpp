// Nemotron (NVIDIA, Nemotron-4 and Minitron, 2024): Llama with layer norms whose weights are stored
// minus one, a squared ReLU without a gate, and positions in half of each head.

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kNemotronPart = 0.5;
constexpr LlamaForm kNemotronForm{.norm = NormKind::layer_norm, .gated = false};

ModelConfig read_nemotron(HfConfig& config) {
  ModelConfig model = read_llama_like(config, 0, -1, {.part = kNemotronPart});
  // NeMo's name of the part, which Hugging Face's code does not read.
  if (config.has("rope_percent")) {
    const double percent = config.number("rope_percent");
    const auto head = static_cast<double>(model.head_dim);
    const bool same =
        percent > 0 && percent <= 1 && static_cast<int64_t>(head * percent) == model.rotary.width;
    VIADUCT_CHECK(ConfigError, same,
                  "{}: rope_percent is {}, but {} of a head rotates (partial_rotary_factor, which "
                  "Hugging Face's code reads); expected the same in both",
                  config.where(), percent, static_cast<double>(model.rotary.width) / head);
  }
  model.norm = NormKind::layer_norm;
  model.norm_eps = config.number("norm_eps", 1e-5);
  model.norm_weight_offset = 1;
  model.activation = activation_from_hf(config, "hidden_act", "relu2");
  model.gated = false;
  read_llama_biases(config, model);
  return model;
}

nlohmann::ordered_json write_nemotron(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model, kNemotronForm);
  write_rotated_part(model, json);
  write_llama_biases(model, json);
  json["norm_eps"] = model.norm_eps;
  return json;
}

void resolve_nemotron(ModelFields& fields) {
  fields.normalization.resolve(NormKind::layer_norm);
  fields.layernorm_zero_centered_gamma.resolve(true);
  fields.activation_func.resolve(FeedForwardActivation::squared_relu);
  fields.gated_linear_unit.resolve(false);
  fields.rotary_percent.resolve(kNemotronPart);
}

}  // namespace

ModelFamily nemotron() {
  return {"nemotron",     "NemotronForCausalLM", read_nemotron,
          write_nemotron, llama_names(),         resolve_nemotron};
}

}  // namespace viaduct::families
