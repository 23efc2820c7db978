#include "model/further_fields.h"

#include <algorithm>

#include "base/error.h"
#include "model/model_from_fields.h"

namespace viaduct {
namespace {

/// The same model, in which settings of parts that it does not have are the default.
ModelConfig without_idle_settings(ModelConfig model) {
  const ModelConfig plain;
  const auto none = [](const std::vector<int64_t>& layers) {
    return std::all_of(layers.begin(), layers.end(), [](int64_t one) { return one == 0; });
  };
  if (model.norm != NormKind::layer_norm) model.norm_bias = plain.norm_bias;
  if (!model.qk_norm) {
    model.qk_norm_per_head = plain.qk_norm_per_head;
    model.qk_norm_after_rotary = plain.qk_norm_after_rotary;
    model.qk_norm_own_weights = plain.qk_norm_own_weights;
  }
  if (none(model.windows)) model.window_rotary_base = plain.window_rotary_base;
  if (none(model.no_rope)) {
    model.no_rope = plain.no_rope;
    model.no_rope_temperature = plain.no_rope_temperature;
  }
  return model;
}

}  // namespace

std::string further_fields(const ModelConfig& model, const ModelConfig& said) {
  ModelFields meant, found;
  take_architecture(meant, without_idle_settings(model));
  take_architecture(found, without_idle_settings(said));
  const FieldGroup group = model_fields(meant), others = model_fields(found);
  std::string text;
  for (size_t i = 0; i < group.fields().size(); ++i) {
    const Value value = group.fields()[i].current();
    if (same_value(value, others.fields()[i].current())) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", group.fields()[i].name,
                        to_flow_yaml(value));
  }
  return text.empty() ? "" : "{" + text + "}";
}

ModelConfig with_further_fields(const ModelConfig& said, const std::string& fields,
                                const std::string& where) {
  const Value map = parse_yaml(fields, where + ": " + kFurtherFields);
  VIADUCT_CHECK(ConfigError, map.is_map(), "{}: {}: expected a map, found {}", where,
                kFurtherFields, fields.substr(0, 80));
  ModelFields model;
  const FieldGroup group = model_fields(model);
  for (const auto& [name, value] : map.entries) {
    const auto field = std::find_if(group.fields().begin(), group.fields().end(),
                                    [&](const Field& one) { return one.name == name; });
    VIADUCT_CHECK(ConfigError, field != group.fields().end(), "{}: {}: unknown field '{}'", where,
                  kFurtherFields, name.substr(0, 80));
    const bool read = field->assign(value);
    const std::string problem =
        read ? field->value_problem(value) : fmt::format("expected {}", field->type);
    VIADUCT_CHECK(ConfigError, problem.empty(), "{}: {}: {}: {}", where, kFurtherFields, name,
                  problem);
  }
  take_architecture(model, said);
  model.resolve();
  return to_model_config(model, said);
}

}  // namespace viaduct
