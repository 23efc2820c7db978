#include "run/weights_fit.h"

#include <fmt/ranges.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/parameter_io.h"
#include "model/model_from_fields.h"
#include "run/grown_vocabulary.h"
#include "run/resume_rules.h"

namespace viaduct {
namespace {

/// The given settings of the model's shape that are not as the weights' own model has them.
std::vector<std::string> differing_settings(const RunSetup& setup, const ModelConfig& base) {
  RunConfig now = setup.config, stored;
  stored.model.vision = now.model.vision;  // the weights were opened with these
  take_architecture(stored.model, base);
  const Schema here = run_schema(now), there = run_schema(stored);
  std::vector<std::string> names;
  for (const std::string& name : setup.given) {
    const Field *asked = here.find(name), *own = there.find(name);
    if (asked == nullptr || own == nullptr || asked->section != "model") continue;
    const std::string_view effect = resume_rule(here, name).value_or(resume::free).effect;
    const bool shapes =
        effect == resume::other_model.effect || effect == resume::other_shapes.effect;
    if (shapes && !same_value(asked->current(), own->current())) names.push_back(name);
  }
  return names;
}

}  // namespace

void check_weights_fit(const RunSetup& setup, const ModelConfig& base) {
  std::unique_ptr<TensorSource> weights;
  try {
    weights = open_pretrained(setup);
  } catch (const IoError&) {
    return;
  }
  try {
    check_tensors_fit(setup.model, *weights);
  } catch (const IoError& error) {
    const std::vector<std::string> names = differing_settings(setup, base);
    if (names.empty()) throw;  // the folder's own configuration does not fit its weights
    fail<ConfigError>(
        "checkpoint.pretrained_checkpoint: with {} the model is another one than these weights "
        "have: {}",
        fmt::join(names, ", "), error.what());
  }
}

}  // namespace viaduct
