// The file of free constants.

#include <fmt/format.h>

#include "base/error.h"
#include "base/nearest.h"
#include "config/convert.h"
#include "plan/score/score.h"

namespace viaduct {
namespace {

constexpr double kLeast = 0.3, kMost = 1.5;
constexpr const char* kField = "step_share";

}  // namespace

ScoreConstants parse_score_constants(std::string_view text, const std::string& origin) {
  const Value document = parse_yaml(std::string(text), origin);
  VIADUCT_CHECK(
      ConfigError, document.is_map() && document.find(kField) != nullptr,
      "{}: expected one field, {}: a map from GPUs to their share of the predicted speed, "
      "such as {}: {{b200: 0.72}}",
      origin, kField, kField);
  for (const auto& [field, value] : document.entries)
    VIADUCT_CHECK(ConfigError, field == kField,
                  "{}: unknown field {}; the only free constant is {}, one number for each GPU",
                  origin, field, kField);
  const Value& shares = *document.find(kField);
  VIADUCT_CHECK(ConfigError, shares.is_map(), "{}: {}: expected a map, found {}", origin, kField,
                to_flow_yaml(shares));
  ScoreConstants constants;
  const std::vector<std::string> known = gpu_names();
  for (const auto& [gpu, value] : shares.entries) {
    const auto nearest = nearest_name(gpu, known);
    VIADUCT_CHECK(ConfigError, std::find(known.begin(), known.end(), gpu) != known.end(),
                  "{}: {}: unknown GPU {}{}", origin, kField, gpu,
                  nearest ? ", did you mean " + *nearest + "?" : "");
    double share = 0;
    VIADUCT_CHECK(ConfigError, read_value(value, share) && share > kLeast && share <= kMost,
                  "{}: {}.{}: expected a number above {} and at most {}, found {}", origin, kField,
                  gpu, kLeast, kMost, to_flow_yaml(value));
    constants[gpu] = share;
  }
  return constants;
}

}  // namespace viaduct
