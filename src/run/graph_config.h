#pragma once
// CUDA graphs, of section `model`: which part of a step is captured, and when.

#include <array>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "config/problems.h"

namespace viaduct {

struct RunConfig;

/// What is captured.
enum class GraphCapture {
  none,
  local,               // layers, or modules of them, each by itself
  transformer_engine,  // refused
  full_iteration,      // forward and backward of whole steps
};
constexpr auto choice_names(GraphCapture) {
  return std::to_array<std::string_view>({"none", "local", "transformer_engine", "full_iteration"});
}

/// What of a layer is captured with `local`.
enum class GraphModule {
  attn,
  mlp,
  moe,
  moe_router,      // with the shared experts
  moe_preprocess,  // the dispatch, until its exchange
  mamba,           // refused: no layer is one
};
constexpr auto choice_names(GraphModule) {
  return std::to_array<std::string_view>(
      {"attn", "mlp", "moe", "moe_router", "moe_preprocess", "mamba"});
}

struct GraphConfig {
  GraphCapture cuda_graph_impl = GraphCapture::none;
  std::vector<GraphModule> cuda_graph_modules;  // none: whole layers
  int64_t cuda_graph_warmup_steps = 3;
};

FieldGroup graph_fields(GraphConfig& config);

/// Kernels of a GPU are launched, or in a dry run would be: only these can be captured.
bool launches_kernels(const RunConfig& config);
/// Whether forward and backward of whole steps are captured, on this run's device.
bool captures_steps(const RunConfig& config);
/// Whether layers are, each by itself.
bool captures_layers(const RunConfig& config);

}  // namespace viaduct
