#include "data/tokenizer/tokenizer_json_step.h"

#include "base/error.h"
#include "base/json.h"
#include "base/json_members.h"
#include "data/tokenizer/tokenizer_json_members.h"

namespace viaduct {

using nlohmann::json;

std::string tokenizer_step_type(const json& step, std::string_view what, std::string_view source) {
  VIADUCT_CHECK(IoError, !step.is_object() || find_member(step, "type") != nullptr,
                "{}: {} has no type", source, what);
  check_members(step, what, {{"type", JsonKind::text}}, source);
  return string_member(step, "type", source);
}

void for_each_tokenizer_step(const json& value, std::string_view what, std::string_view list,
                             std::string_view source, FunctionRef<void(const json& step)> visit) {
  const std::string type = tokenizer_step_type(value, what, source);
  if (type != "Sequence") {
    check_step_members(value, what, type, source);
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
