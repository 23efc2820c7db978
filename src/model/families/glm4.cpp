// GLM 4 of 2025 (0414, Z1): its first form with norms after each branch as well.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

ModelConfig read_glm4(HfConfig& config) {
  ModelConfig model = read_glm(config);
  model.output_norms = true;
  return model;
}

void resolve_glm4(ModelFields& fields) {
  resolve_glm(fields);
  fields.post_sublayer_norm.resolve(true);
}

}  // namespace

ModelFamily glm4() {
  // Names of norms after branches are those that every descendant of Llama has here.
  return {"glm4",       "Glm4ForCausalLM",      read_glm4, write_glm, glm_names(),
          resolve_glm4, RotaryPairs::neighbours};
}

}  // namespace viaduct::families
