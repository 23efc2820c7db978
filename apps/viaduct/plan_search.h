#pragma once
// `viaduct plan --model MODEL`: the search for a layout and how its result is shown.

#include "plan_request.h"

namespace viaduct::cli {

/// Returns the exit status. ConfigError for wrong options; 1 if no layout fits.
int run_plan_search(const PlanSearchOptions& options, const Cluster& cluster,
                    const std::string& basis);

}  // namespace viaduct::cli
