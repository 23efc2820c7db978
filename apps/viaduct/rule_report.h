#pragma once
// The rules of the tuning guides in the output of `viaduct plan` and `viaduct train --dry-run`.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plan/rules/evaluate.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace viaduct::cli {

struct RuleOptions {
  std::vector<std::string> thresholds;
  std::optional<double> seconds;  // of changes' predictions
  bool verbose = false;
};

/// Returns the options, so that the caller can say what they need or exclude.
std::vector<CLI::Option*> add_rule_options(CLI::App& app, RuleOptions& options);

/// ConfigError for wrong thresholds.
rules::EvaluationSettings evaluation_settings(const RuleOptions& options);

/// How long changes are predicted unless --rule-seconds says it, by how long the command has run
/// for the prediction of the run itself.
double rule_seconds(const RuleOptions& options, double elapsed);

/// Those that fire; with `verbose` all.
void print_rules(const rules::Evaluation& evaluation, bool verbose);

nlohmann::ordered_json rules_json(const rules::Evaluation& evaluation);

}  // namespace viaduct::cli
