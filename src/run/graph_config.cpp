#include "run/graph_config.h"

#include "run/run_config.h"

namespace viaduct {
namespace {

/// Kernels are launched, or in a dry run would be.
bool on_gpu(const RunConfig& config) {
  return config.dist.device.value_or("cpu") == "cuda" || config.cuda_target.has_value();
}

void refuse(Problems& problems, std::string_view found, std::string_view why) {
  problems.add("model.cuda_graph_impl: full_iteration with {}: {}; expected cuda_graph_impl = none",
               found, why);
}

}  // namespace

FieldGroup graph_fields(GraphConfig& config) {
  FieldGroup group("model", "");
  group
      .field("cuda_graph_impl", config.cuda_graph_impl,
             "What dist.device=cuda captures into a CUDA graph: nothing, or with full_iteration "
             "forward and backward of a whole step, which one launch replays in each later "
             "step of the same shapes.")
      .one_of({"none", "local", "transformer_engine", "full_iteration"})
      .alias("enable_cuda_graph")
      .alias("external_cuda_graph");
  group
      .field("cuda_graph_modules", config.cuda_graph_modules,
             "Modules that are captured by themselves (cuda_graph_impl = local): attn, mlp, moe, "
             "moe_router, moe_preprocess, mamba. None are so far.")
      .alias("cuda_graph_scope");
  group
      .field("cuda_graph_warmup_steps", config.cuda_graph_warmup_steps,
             "Steps that run before one is captured: libraries and layers allocate at their first "
             "use.")
      .range(1)
      .in("steps");
  return group;
}

bool captures_steps(const RunConfig& config) {
  return config.graph.cuda_graph_impl == "full_iteration" && on_gpu(config);
}

void validate_graphs(const RunConfig& config, Problems& problems) {
  const GraphConfig& graph = config.graph;
  if (!on_gpu(config)) return;  // run/no_effect.h says so
  if (graph.cuda_graph_impl == "local") {
    problems.add(
        "model.cuda_graph_impl: local (a graph for each layer) is not implemented yet; expected "
        "none or full_iteration");
  } else if (graph.cuda_graph_impl == "transformer_engine") {
    problems.add(
        "model.cuda_graph_impl: transformer_engine is the capture of a library that is not used "
        "here; expected none or full_iteration");
  }
  if (!graph.cuda_graph_modules.empty()) {
    problems.add(
        "model.cuda_graph_modules: modules are captured with cuda_graph_impl = local, which is not "
        "implemented yet; expected []");
  }
  if (graph.cuda_graph_impl != "full_iteration") return;
  const int expert_ranks =
      config.parallel.expert_model_parallel_size * config.parallel.expert_tensor();
  if (config.model.moe.experts() > 0 && expert_ranks > 1) {
    refuse(problems,
           "experts over " + std::to_string(expert_ranks) +
               " ranks (model.expert_model_parallel_size, expert_tensor_parallel_size)",
           "hosts read how many rows each exchange has");
  }
  if (config.pipeline.variable_seq_lengths) {
    refuse(problems, "model.variable_seq_lengths = true", "hosts read the shapes of messages");
  }
  if (config.context_parallel.hybrid_context_parallel) {
    refuse(problems, "model.hybrid_context_parallel = true",
           "each row is shared by other ranks, and launches depend on them");
  }
  if (config.ddp.shards_weights() || config.ddp.shards_gradients()) {
    refuse(problems, "ddp.data_parallel_sharding_strategy = " + config.ddp.strategy(),
           "units are gathered and sent on the way");
  }
  if (config.offload.cpu_offloading || config.offload.moves_weights() ||
      config.state_offload.fraction() > 0) {
    refuse(problems, "tensors in a second memory", "the host places them on the way");
  }
  if (config.dataset.reset_attention_mask) {
    refuse(problems, "dataset.reset_attention_mask = true",
           "each row has other documents, and launches depend on them");
  }
}

}  // namespace viaduct
