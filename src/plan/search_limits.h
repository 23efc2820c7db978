#pragma once
// What a configuration leaves open for the search, read from the fields that the user gave.

#include <string>
#include <vector>

#include "plan/layer_costs.h"
#include "plan/layout_space.h"

namespace viaduct {

struct SearchLimits {
  SpaceLimits space;
  bool has_bubble = true;                 // of the pipeline schedule
  bool all_in_flight = false;             // the same
  std::vector<std::string> not_searched;  // in words
};

/// `whole`: the resolved run of the whole model. `variant`: its values are fixed as well; may be
/// null. ConfigError with all problems of the request's file and overrides.
SearchLimits search_limits(const PlanRequest& request, const RunSetup& whole,
                           const Variant* variant = nullptr);

/// The fields of the layout that the request's overrides give, by name.
std::vector<std::string> given_layout_fields(const PlanRequest& request);

}  // namespace viaduct
