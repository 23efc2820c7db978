#pragma once
// `viaduct plan --model MODEL --ranks N,N,…`: how the fastest layout's speed grows with the ranks.

#include "plan_request.h"

namespace viaduct::cli {

/// Searches for each number of ranks, with the same global batch (strong scaling), or with --weak
/// with a batch in proportion to the ranks. Returns the exit status; 1 if nothing fits at any
/// number.
int run_plan_scaling(const PlanSearchOptions& options, const Cluster& cluster,
                     const std::vector<int64_t>& counts, const std::string& basis);

}  // namespace viaduct::cli
