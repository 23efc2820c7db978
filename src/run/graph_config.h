#pragma once
// CUDA graphs, of section `model`: what of a step is captured, and when.

#include <string>
#include <vector>

#include "config/field.h"
#include "config/problems.h"

namespace viaduct {

struct RunConfig;

struct GraphConfig {
  std::string cuda_graph_impl = "none";
  std::vector<std::string> cuda_graph_modules;
  int64_t cuda_graph_warmup_steps = 3;
};

FieldGroup graph_fields(GraphConfig& config);

/// Whether a graph has forward and backward of whole steps, on this run's device.
bool captures_steps(const RunConfig& config);
/// What of the run has no place in a graph.
void validate_graphs(const RunConfig& config, Problems& problems);

}  // namespace viaduct
