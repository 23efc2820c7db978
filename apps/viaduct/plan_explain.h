#pragma once
// viaduct plan --explain: how a layout is chosen by hand for this model and cluster.

#include "plan/layer_costs.h"

namespace viaduct::cli {

int explain_plan(const PlanRequest& request, bool json);

}  // namespace viaduct::cli
