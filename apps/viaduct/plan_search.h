#pragma once
// `viaduct plan --model MODEL`: the search for a layout and how its result is shown.

#include "plan_request.h"
#include "rule_report.h"

namespace viaduct::cli {

/// The rules of the tuning guides that are applied to the fastest layout.
struct WinnerRules {
  RuleOptions options;
  std::vector<std::string> given;  // names of those of the command line
};

/// Returns the exit status. ConfigError for wrong options; 1 if no layout fits.
int run_plan_search(const PlanSearchOptions& options, const Cluster& cluster,
                    const std::string& basis, const WinnerRules& rules);

}  // namespace viaduct::cli
