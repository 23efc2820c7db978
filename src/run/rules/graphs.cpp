// What CUDA graphs cannot capture.

#include <algorithm>

#include "run/graph_config.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

/// Why there is nothing to capture.
std::string no_launches(const RunConfig& c, const ConfigOutcome&) {
  return reason_if(!launches_kernels(c),
                   stated("dist.device", c.dist.device_kind()) + " launches no kernels");
}

void refuse(Problems& problems, const GraphConfig& graph, std::string_view found,
            std::string_view why, std::string_view expected = "cuda_graph_impl = none") {
  problems.add("model.cuda_graph_impl: {} with {}: {}; expected {}",
               choice_name(graph.cuda_graph_impl), found, why, expected);
}

int64_t expert_ranks(const RunConfig& config) {
  return int64_t{1} * config.parallel.expert_model_parallel_size * config.parallel.expert_tensor();
}

std::string over_ranks(int64_t ranks) {
  return "experts over " + std::to_string(ranks) +
         " ranks (model.expert_model_parallel_size, expert_tensor_parallel_size)";
}

/// What no graph has, of whatever part of a step.
void refuse_for_all(const RunConfig& config, Problems& problems) {
  const auto no = [&](std::string_view found, std::string_view why) {
    refuse(problems, config.graph, found, why);
  };
  if (config.pipeline.variable_seq_lengths)
    no("model.variable_seq_lengths = true", "hosts read the shapes of messages");
  if (config.context_parallel.hybrid_context_parallel)
    no("model.hybrid_context_parallel = true",
       "each row is shared by other ranks, and launches depend on them");
  if (const std::string cause = cause_of_documents(config.dataset); !cause.empty())
    no(cause, "each row has other documents, and launches depend on them");
}

void refuse_for_steps(const RunConfig& config, Problems& problems) {
  if (config.model.moe.experts() > 0 && expert_ranks(config) > 1 &&
      !config.model.moe.moe_pad_expert_input_to_capacity) {
    refuse(problems, config.graph, over_ranks(expert_ranks(config)),
           "hosts read how many rows each exchange has",
           "model.moe_pad_expert_input_to_capacity = true with moe_expert_capacity_factor, or "
           "cuda_graph_impl = local or none");
  }
}

/// Names of modules, and what of the model they stand for.
void check_modules(const RunConfig& config, Problems& problems) {
  using enum GraphModule;
  const std::vector<GraphModule>& modules = config.graph.cuda_graph_modules;
  const auto has = [&](GraphModule module) { return std::ranges::count(modules, module) > 0; };
  const bool experts = config.model.moe.experts() > 0;
  const auto& frequency = config.model.moe.moe_layer_freq;
  const bool dense =
      !experts || frequency.is_auto() ||
      std::ranges::any_of(frequency.value().values(), [](int64_t layers) { return layers != 1; });
  for (const GraphModule module : modules) {
    const bool of_experts = module == moe || module == moe_router || module == moe_preprocess;
    if (module == mamba) {
      problems.add(
          "model.cuda_graph_modules: mamba: no layer of this model is a Mamba layer; expected "
          "attn, mlp, moe, moe_router, moe_preprocess or []");
    } else if (module == mlp && !dense) {
      problems.add(
          "model.cuda_graph_modules: mlp: each layer of this model has experts "
          "(model.moe_layer_freq); expected attn, moe, moe_router, moe_preprocess or []");
    } else if (of_experts && !experts) {
      problems.add(
          "model.cuda_graph_modules: {}: this model has no experts (model.num_moe_experts); "
          "expected attn, mlp or []",
          choice_name(module));
    }
  }
  if (dense && config.model.parallel_block.value_or(false) && has(attn) != has(mlp)) {
    problems.add(
        "model.cuda_graph_modules: attn and mlp of a parallel block (model.parallel_block) are one "
        "piece; expected both of them, or []");
  }
  if (has(moe) && (has(moe_router) || has(moe_preprocess))) {
    problems.add(
        "model.cuda_graph_modules: moe is the whole layer of experts, with moe_router and "
        "moe_preprocess; expected one or the other");
  }
  if (has(moe_preprocess) && !has(moe_router) && !has(moe)) {
    problems.add(
        "model.cuda_graph_modules: moe_preprocess goes on where the router ends; expected "
        "[moe_router, moe_preprocess]");
  }
  // With padding each expert gets the same number of rows in each step.
  const bool all_experts = experts && (modules.empty() || has(moe));
  if (all_experts && expert_ranks(config) > 1 &&
      !config.model.moe.moe_pad_expert_input_to_capacity) {
    refuse(
        problems, config.graph, over_ranks(expert_ranks(config)),
        "launches depend on the rows that the router sends to each rank, other ones in each step",
        "cuda_graph_modules = [attn, moe_router, moe_preprocess], or "
        "model.moe_pad_expert_input_to_capacity = true with moe_expert_capacity_factor");
  }
}

void refuse_graphs(const RunConfig& config, const ConfigOutcome& outcome, Problems& problems) {
  const GraphConfig& graph = config.graph;
  if (!no_launches(config, outcome).empty()) return;
  if (graph.cuda_graph_impl == GraphCapture::transformer_engine) {
    problems.add(
        "model.cuda_graph_impl: transformer_engine is the capture of a library that is not used "
        "here; expected none, local or full_iteration");
  }
  const bool layers = captures_layers(config), steps = captures_steps(config);
  if (!graph.cuda_graph_modules.empty() && !layers) {
    problems.add(
        "model.cuda_graph_modules: modules are captured with cuda_graph_impl = local, found {}; "
        "expected []",
        choice_name(graph.cuda_graph_impl));
  }
  if (layers || steps) refuse_for_all(config, problems);
  if (steps) refuse_for_steps(config, problems);
  if (layers) check_modules(config, problems);
}

}  // namespace

Topic graphs_topic() {
  std::vector<NoEffectRule> idle{
      {{"model.cuda_graph_impl", "model.cuda_graph_modules"}, no_launches},
      {{"model.cuda_graph_impl"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const bool each_step = c.tensor_inspect.enabled && c.tensor_inspect.interval == 1 &&
                                c.logger.log_interval == 1 &&
                                precision_recipe(c.mixed_precision).products.any();
         return reason_if(each_step && (captures_steps(c) || captures_layers(c)),
                          "each step measures its operands (tensor_inspect), without graphs");
       }},
      {{"model.cuda_graph_warmup_steps"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!captures_steps(c) && !captures_layers(c),
                          "nothing is captured (model.cuda_graph_impl)");
       }},
  };
  return {refuse_graphs, std::move(idle)};
}

}  // namespace viaduct
