#include "plan/written_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "config/load.h"
#include "plan/planning_defaults.h"

namespace viaduct {
namespace {

bool names_data(const ConfigOutcome& outcome) {
  return std::any_of(outcome.given.begin(), outcome.given.end(), [](const auto& field) {
    return field.first == "dataset.mock" || field.first.starts_with("dataset.blend");
  });
}

/// A layout sets fields to null that it does not use, which is their default.
bool says_nothing(const Field& field, const Value& value) {
  return value.is_null() && field.default_value.is_null();
}

/// Paths of a configuration count from the folder in which a command runs: that of the model is
/// written so that it is found from every one. A name that is no path here stays a name.
void find_from_everywhere(ConfigOutcome& outcome, const RunConfig& config) {
  const auto& path = config.model.hf_config;
  if (!path || !std::filesystem::exists(*path)) return;
  outcome.given["model.hf_config"] =
      Value::of_scalar(std::filesystem::absolute(*path).lexically_normal().string());
}

}  // namespace

std::string written_config(const PlanRequest& request, const Layout& layout,
                           const std::vector<std::string>& comment) {
  std::vector<std::string> overrides = request.overrides;
  const std::vector<std::string> fields = overrides_of(layout);
  overrides.insert(overrides.end(), fields.begin(), fields.end());
  RunConfig config;
  Problems problems;
  const Schema schema = run_schema(config);
  ConfigOutcome outcome = read_config(schema, {request.file, overrides}, problems);
  problems.throw_if_any();
  find_from_everywhere(outcome, config);
  std::string text;
  for (const std::string& line : comment) text += "# " + line + "\n";
  if (!names_data(outcome)) {
    text += "# Random tokens stand for the data: name yours in section dataset.\n";
    outcome.given["dataset.mock"] = Value::of_scalar("true");
  }
  // As the plan was made: experts' rows are sent by domain.
  const auto& domain = planning_defaults(request.cluster).dist.nvlink_domain_size;
  const bool experts =
      outcome.is_given("model.num_moe_experts") || outcome.is_given("model.moe_router_topk");
  if (domain && experts && !outcome.is_given("dist.nvlink_domain_size"))
    outcome.given["dist.nvlink_domain_size"] = Value::of_scalar(std::to_string(*domain));
  std::string section;
  for (const auto& [name, value] : outcome.given) {  // sorted by name, so by section
    if (says_nothing(*schema.find(name), value)) continue;
    const size_t dot = name.find('.');
    if (name.substr(0, dot) != section) {
      section = name.substr(0, dot);
      text += section + ":\n";
    }
    text += fmt::format("  {}: {}\n", name.substr(dot + 1), to_flow_yaml(value));
  }
  return text;
}

}  // namespace viaduct
