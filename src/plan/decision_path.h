#pragma once
// How a layout is chosen by hand, step by step, for a model and a cluster: what is enough, and why
// further axes are needed. Each size comes from a dry run. The search (plan/search.h) finds the
// fastest layout; this shows why it has the axes that it has.

#include <string>
#include <vector>

#include "plan/layer_costs.h"

namespace viaduct {

struct PathStep {
  std::string name;
  bool taken = false;              // it changes the layout
  std::vector<std::string> lines;  // what was tried, with sizes, and the reason
};

struct DecisionPath {
  std::vector<PathStep> steps;
  Layout layout;
  bool fits = false;
};

/// Starts with data ranks alone, then tries tensor, context, expert and pipeline ranks, full
/// sharding, placement, micro-batch; an encoder is on the first stage. Fields of the layout that
/// the request gives are named and not used. ConfigError if the model cannot be built.
DecisionPath decision_path(const PlanRequest& request);

}  // namespace viaduct
