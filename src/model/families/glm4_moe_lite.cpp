// GLM 4.7 Flash (Zeng et al. 2025, arXiv 2508.06471): DeepSeek-V3's latent attention and experts
// in the sizes of GLM, and a list of the layers that have experts.

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kFlashEpsilon = 1e-5;
constexpr const char *kDense = "dense", *kSparse = "sparse";
constexpr DeepSeekDefaults kFlashExperts{.experts = 64,
                                         .topk = 4,
                                         .feed_forward = 1536,
                                         .shared_experts = 1,
                                         .dense_layers = 1,
                                         .scaling = 1.8,
                                         .norm_eps = kFlashEpsilon,
                                         .q_rank = 768,
                                         .plain_dim = 192,
                                         .value_dim = 256};
constexpr DeepSeekChoice kFlashChoice{.groups = 1, .group_topk = 1};

/// Which layers have experts, by `mlp_layer_types`, which lists dense layers first. Without the
/// list only the first one is dense: Hugging Face's code does not read first_k_dense_replace, which
/// may say the same. ConfigError otherwise.
void read_listed_experts(HfConfig& config, ModelConfig& model) {
  const auto types = config.texts("mlp_layer_types");
  int64_t dense = kFlashExperts.dense_layers;
  if (!types.empty()) {
    VIADUCT_CHECK(ConfigError, std::ssize(types) == model.layers,
                  "{}: mlp_layer_types has {} for {}", config.where(),
                  counted(std::ssize(types), "entry", "entries"), counted(model.layers, "layer"));
    const auto first = std::ranges::find_if(types, [](const auto& t) { return t != kDense; });
    const auto other = std::find_if(first, types.end(), [](const auto& t) { return t != kSparse; });
    VIADUCT_CHECK(
        ConfigError, other == types.end(),
        "{}: mlp_layer_types: {} in layer {} is not supported (supported: {} in the first "
        "layers, {} in all others)",
        config.where(), *other, other - types.begin(), kDense, kSparse);
    dense = first - types.begin();
  }
  expect_only(config, "first_k_dense_replace", config.integer("first_k_dense_replace", dense),
              dense);
  for (int64_t layer = 0; layer < model.layers; ++layer)
    model.moe.layers[static_cast<size_t>(layer)] = layer >= dense ? 1 : 0;
}

ModelConfig read_glm4_moe_lite(HfConfig& config) {
  ModelConfig model = read_deepseek(config, kFlashExperts);
  read_listed_experts(config, model);
  read_deepseek_choice(config, kFlashChoice, model.moe);
  read_multi_token_layers(config, model);
  return model;
}

nlohmann::ordered_json write_glm4_moe_lite(const ModelConfig& model) {
  nlohmann::ordered_json json = write_deepseek_v3(model);
  auto types = nlohmann::ordered_json::array();
  for (int64_t layer = 0; layer < model.layers; ++layer)
    types.push_back(model.moe.routes(layer) ? kSparse : kDense);
  json["mlp_layer_types"] = std::move(types);
  return json;
}

void resolve_glm4_moe_lite(ModelFields& fields) {
  fields.layernorm_epsilon.resolve(kFlashEpsilon);
  resolve_deepseek(fields);
  resolve_deepseek_experts(kFlashExperts, fields.moe);
  resolve_deepseek_choice(kFlashChoice, fields.moe);
}

}  // namespace

ModelFamily glm4_moe_lite() {
  return {
      "glm4_moe_lite",  "Glm4MoeLiteForCausalLM", read_glm4_moe_lite,         write_glm4_moe_lite,
      deepseek_names(), resolve_glm4_moe_lite,    RotaryPairs::as_config_says};
}

}  // namespace viaduct::families
