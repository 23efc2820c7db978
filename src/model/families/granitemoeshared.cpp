// Granite 3 with mixtures of experts and one that all tokens use (2024), whose gate and up are in
// one tensor.

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

ModelConfig read_granitemoeshared(HfConfig& config) {
  ModelConfig model = read_granitemoe(config);
  const int64_t shared = config.integer("shared_intermediate_size", 0);
  VIADUCT_CHECK(ConfigError, shared >= 0, "{}: shared_intermediate_size is {}, expected at least 0",
                config.where(), shared);
  model.moe.shared_feed_forward = shared;
  return model;
}

nlohmann::ordered_json write_granitemoeshared(const ModelConfig& model) {
  FamilyChoices choices(model.family);
  choices.expect(!model.moe.shared_gate, "moe_shared_expert_gate", "false", "true");
  choices.throw_if_any();
  ModelConfig routed = model;
  routed.moe.shared_feed_forward = 0;
  nlohmann::ordered_json json = write_granitemoe(routed);
  json["shared_intermediate_size"] = model.moe.shared_feed_forward;
  return json;
}

TensorNames names() {
  TensorNames names = granitemoe_names();
  names.shared_gate = "";
  names.shared_up = "model.layers.{}.shared_mlp.input_linear";
  names.shared_down = "model.layers.{}.shared_mlp.output_linear";
  names.shared_router = "";
  return names;
}

}  // namespace

ModelFamily granitemoeshared() {
  return {"granitemoeshared",
          "GraniteMoeSharedForCausalLM",
          read_granitemoeshared,
          write_granitemoeshared,
          names(),
          resolve_granitemoe};
}

}  // namespace viaduct::families
