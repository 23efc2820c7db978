#pragma once
// `viaduct plan --model MODEL --longest` and `--largest`: the largest model or the longest rows
// that fit on a number of GPUs.

#include "plan/largest.h"
#include "plan_request.h"

namespace viaduct::cli {

/// Returns the exit status; 1 if the smallest value does not fit either.
int run_plan_largest(const PlanSearchOptions& options, const Cluster& cluster, int64_t ranks,
                     const std::string& basis);

}  // namespace viaduct::cli
