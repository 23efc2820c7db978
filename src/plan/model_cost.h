#pragma once
// The minimum cost of all layouts of a search.

#include "plan/layer_costs.h"
#include "plan/search_limits.h"

namespace viaduct {

/// The cost of the model with the batch and the schedule of `limits`. The seconds of its step are
/// those of its layers on one rank with the largest micro-batch (split over ranks or into smaller
/// micro-batches, kernels work on less at a time, which takes them longer in total), and of
/// embedding and head with logits that are made once. DeadlineError as of `dry_run`.
ModelCost model_cost(const PlanRequest& request, const SearchLimits& limits, LayerCosts& layers,
                     const Deadline& deadline = {});

}  // namespace viaduct
