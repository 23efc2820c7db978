#include "model/further_fields.h"

#include <algorithm>

#include "base/error.h"
#include "model/model_from_fields.h"

namespace viaduct {

std::string further_fields(const ModelConfig& model, const ModelConfig& said) {
  ModelFields meant, found;
  take_architecture(meant, model);
  take_architecture(found, said);
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
