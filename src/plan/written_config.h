#pragma once
// A found layout as a training configuration that `viaduct train` reads.

#include <string>
#include <vector>

#include "plan/layer_costs.h"

namespace viaduct {

/// The fields that the request gives and those of the layout as YAML, section by section, behind
/// `comment` lines. Where the request names no data, the configuration has random tokens
/// (dataset.mock) and says so. model.hf_config is absolute where it is a path; other paths stay as
/// they are given. ConfigError as of the request's file and overrides.
std::string written_config(const PlanRequest& request, const Layout& layout,
                           const std::vector<std::string>& comment);

}  // namespace viaduct
