#include "data/tokenizer/tokenizer_json_step.h"

#include "base/error.h"
#include "base/json.h"
#include "base/json_members.h"

namespace viaduct {

using nlohmann::json;

std::string tokenizer_step_type(const json& step, std::string_view what, std::string_view source) {
  VIADUCT_CHECK(IoError, step.is_object(), "{}: {} must be an object, found {}", source, what,
                step.type_name());
  const std::string type = string_member(step, "type", source);
  VIADUCT_CHECK(IoError, !type.empty(), "{}: {} has no type", source, what);
  return type;
}

void for_each_tokenizer_step(const json& value, std::string_view what, std::string_view list,
                             std::string_view source, FunctionRef<void(const json& step)> visit) {
  if (tokenizer_step_type(value, what, source) != "Sequence") {
    visit(value);
    return;
  }
  const json* steps = find_member(value, list);
  VIADUCT_CHECK(IoError, steps != nullptr && steps->is_array(), "{}: {} has no list \"{}\"", source,
                what, list);
  VIADUCT_CHECK(ConfigError, steps->size() <= kMostTokenizerSteps,
                "{}: {} with {} steps, at most {}", source, what, steps->size(),
                kMostTokenizerSteps);
  for (const json& step : *steps) for_each_tokenizer_step(step, what, list, source, visit);
}

}  // namespace viaduct
