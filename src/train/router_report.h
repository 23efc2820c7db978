#pragma once
// The figures of the routers of all ranks in a step, on rank 0.

#include <vector>

#include "engine/engine.h"
#include "report/router_figures.h"

namespace viaduct {

/// Layer by layer, in their order; empty on other ranks than 0 of the run, and for models without
/// experts. Read after the step, by all ranks of the run.
std::vector<LayerRouting> collect_routing(Engine& engine);

}  // namespace viaduct
