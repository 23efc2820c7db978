#include "run/graph_config.h"

#include "run/run_config.h"

namespace viaduct {

FieldGroup graph_fields(GraphConfig& config) {
  FieldGroup group("model", "");
  group.on_resume(resume::free);
  group
      .field("cuda_graph_impl", config.cuda_graph_impl,
             "What dist.device=cuda captures into CUDA graphs: nothing; with full_iteration "
             "forward and backward of a whole step, which one launch replays in each later "
             "step of the same shapes; with local forward and backward of each layer, or of its "
             "cuda_graph_modules, between their exchanges with other ranks.")
      .alias_switch("enable_cuda_graph", "local", "none")
      .alias_switch("external_cuda_graph", "transformer_engine", "none");
  group
      .field(
          "cuda_graph_modules", config.cuda_graph_modules,
          "What of each layer cuda_graph_impl = local captures: attn, mlp, moe, moe_router (with "
          "the shared experts), moe_preprocess (the dispatch, until its exchange); [] is the "
          "whole layer. Neighbours are one graph.")
      .alias("cuda_graph_scope");
  group
      .field("cuda_graph_warmup_steps", config.cuda_graph_warmup_steps,
             "Steps that run before one is captured: libraries and layers allocate at their first "
             "use.")
      .range(1)
      .in("steps");
  return group;
}

bool launches_kernels(const RunConfig& config) {
  return config.dist.on_cuda() || config.cuda_target.has_value();
}

bool captures_layers(const RunConfig& config) {
  return config.graph.cuda_graph_impl == GraphCapture::local && launches_kernels(config);
}

bool captures_steps(const RunConfig& config) {
  return config.graph.cuda_graph_impl == GraphCapture::full_iteration && launches_kernels(config);
}

}  // namespace viaduct
