#pragma once
// Rules over the settings of several folders, one file a topic: what is refused, and beside it what
// has no effect. What the settings of one folder say by themselves is with its fields (their
// ranges, config/idle_rule.h).

#include <string>
#include <string_view>
#include <vector>

#include "config/problems.h"
#include "run/run_config.h"

namespace viaduct {

/// Fields that have nothing to act on in a resolved configuration.
struct NoEffectRule {
  std::vector<std::string_view> fields;
  /// Why; "" where they act.
  std::string (*reason)(const RunConfig&, const ConfigOutcome&);
  /// Where they act: why the run without one of them is the same; "" where it is another.
  std::string (*same)(const RunConfig& run, const RunConfig& without) = nullptr;
};

struct Topic {
  /// Adds a problem for each conflict, which names the numbers and the nearest valid choice.
  /// `outcome` distinguishes given values from defaults. Values that are still `auto` are left out:
  /// the rules are evaluated again when all are resolved.
  void (*refuse)(const RunConfig& config, const ConfigOutcome& outcome,
                 Problems& problems) = nullptr;
  std::vector<NoEffectRule> idle = {};
};

/// In the order in which their problems are reported.
const std::vector<Topic>& topics();

// Each is the file of its name.
Topic attention_topic();
Topic checkpoints_topic();
Topic context_parallel_topic();
Topic data_topic();
Topic data_parallel_topic();
Topic evaluation_topic();
Topic expert_exchange_topic();
Topic expert_overlap_topic();
Topic experts_topic();
Topic fusions_topic();
Topic gemm_overlap_topic();
Topic gpus_topic();
Topic graphs_topic();
Topic mesh_topic();
Topic model_topic();
Topic offload_topic();
Topic optimizer_topic();
Topic pipeline_topic();
Topic pipeline_schedule_topic();
Topic precision_topic();
Topic recompute_topic();
Topic reports_topic();
Topic sharding_topic();
Topic simulation_topic();
Topic tensor_parallel_topic();

// Reasons that several topics have; "" where they do not hold.

std::string one_tensor_rank(const RunConfig& config, const ConfigOutcome& = {});
std::string one_stage(const RunConfig& config, const ConfigOutcome& = {});
/// Data and context ranks are one, so that `then`.
std::string one_document_rank(const RunConfig& config, std::string_view then);
/// The device is another one than cuda, which `lacks` what is asked for.
std::string without_gpu(const RunConfig& config, std::string_view lacks);

}  // namespace viaduct
