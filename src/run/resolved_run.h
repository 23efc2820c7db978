#pragma once
// The resolved configuration of a run: the settings of each room side by side, read once, the
// same on all ranks, and not changed afterwards. Code that needs one holds a reference to it;
// nothing keeps a copy.

#include <optional>
#include <string>
#include <vector>

#include "comm/parallel_groups.h"
#include "nn/layer_settings.h"
#include "optim/make_optimizer.h"
#include "pipeline/parallelism.h"
#include "run/graph_config.h"
#include "sharding/memory_settings.h"
#include "sharding/store_settings.h"

namespace viaduct {

struct ModelConfig;
struct OptimizerConfig;
struct RunConfig;

/// The purpose of an engine, and so what it holds in addition to the weights: nothing; main
/// gradients; these, masters and moments.
enum class EnginePurpose { evaluate, gradients, train };

/// Which parts of transformer layers become graphs, and after how many steps.
struct LayerGraphs {
  int64_t steps_before = 0;
  std::vector<GraphModule> modules;  // none: whole layers
};

struct ResolvedRun {
  LayerSettings layers;
  Parallelism parallelism;
  MemorySettings memory;
  OptimizerSettings optimizer;
  /// By itself, without a configuration: the defaults of section `ddp` on one rank.
  StoreSettings store{
      .overlap_grad_reduce = true, .overlap_param_gather = true, .align_grad_reduce = true};
  /// A step whose gradients are not finite updates nothing.
  bool check_for_nan_in_grad = true;
  /// The loss is a mean over all scored tokens of the global batch; false: the mean of the
  /// micro-batches' means, as Megatron's default.
  bool calculate_per_token_loss = true;
  int64_t positions = 0;  // longest sequence that occurs
  /// Steps before forward and backward of a step are captured into a graph; none: they are not.
  std::optional<int64_t> steps_before_graph;
  /// Layers whose forwards and backwards are graphs; none: there are none.
  std::optional<LayerGraphs> layer_graphs;
  EnginePurpose purpose = EnginePurpose::train;
};

/// Of a resolved configuration. ConfigError, naming the numbers, if the sizes do not fit each other
/// or the model.
ResolvedRun resolve_run(const RunConfig& config, const ModelConfig& model);

/// The groups of a rank of the run, with the connections that its layers name. Every rank of the
/// world calls it.
ParallelGroups make_groups(const ResolvedRun& run, std::shared_ptr<Communicator> world);

OptimizerSettings optimizer_settings(const OptimizerConfig& config);

}  // namespace viaduct
