// What a run in virtual time runs on, and what it leaves out.

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "hardware/cluster.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

constexpr std::string_view kOfValues[] = {"train.exit_interval",
                                          "train.exit_duration_in_mins",
                                          "train.nan_loss_action",
                                          "train.max_skipped_in_a_row",
                                          "train.max_skipped_rate",
                                          "train.skip_train",
                                          "train.iterations_to_skip",
                                          "train.check_weight_hash_across_dp_replicas_interval",
                                          "train.exit_signals",
                                          "dist.threads_per_rank",
                                          "dist.distributed_timeout_minutes"};
constexpr std::string_view kInVirtualTime[] = {"checkpoint.save",
                                               "checkpoint.pretrained_checkpoint",
                                               "dataset.sequence_length",
                                               "logger.log_interval",
                                               "logger.log_throughput",
                                               "logger.tensorboard_dir",
                                               "logger.flops"};
/// They say how long the documents of a row are, where there are any.
constexpr std::string_view kOfRows[] = {"dataset.blend",
                                        "dataset.blend_per_split",
                                        "dataset.split",
                                        "dataset.packed_sequence_size",
                                        "dataset.packing_algorithm",
                                        "dataset.packing_split",
                                        "dataset.pad_seq_to_mult",
                                        "dataset.enable_offline_packing",
                                        "dataset.offline_packing_specs",
                                        "dataset.packed_sequence_specs"};
constexpr std::string_view kSectionsOfValues[] = {
    "checkpoint.", "dataset.", "logger.", "validation.", "profiling.", "rng.", "tensor_inspect."};

/// Fields for computing, reading data and saving, which have no effect in virtual time.
bool needs_values(std::string_view name) {
  const auto is = [&](std::string_view other) { return name == other; };
  if (std::any_of(std::begin(kInVirtualTime), std::end(kInVirtualTime), is)) return false;
  return std::any_of(std::begin(kOfValues), std::end(kOfValues), is) ||
         std::any_of(std::begin(kSectionsOfValues), std::end(kSectionsOfValues),
                     [&](std::string_view section) { return name.starts_with(section); });
}

void refuse_simulation(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  const DistConfig& dist = config.dist;
  if (!dist.cluster) {
    if (dist.simulated())
      problems.add("dist.device: sim needs dist.cluster; expected one of {}, or a YAML file",
                   fmt::join(cluster_names(), ", "));
    return;
  }
  try {
    const Cluster cluster = load_cluster(*dist.cluster);
    if (!cluster.gpu.has_kernels())
      problems.add(
          "dist.cluster: {}: there are no kernels for GPU {}; GPUs with an architecture in "
          "hardware/gpus.yaml have some",
          *dist.cluster, cluster.gpu.name);
  } catch (const Error& error) {
    problems.add("dist.cluster: {}", error.what());
  }
}

}  // namespace

std::string idle_in_virtual_time(const RunConfig& config, std::string_view field) {
  if (!config.dist.simulated() || !needs_values(field)) return "";
  const bool of_rows =
      config.dataset.packing.conversations &&
      std::find(std::begin(kOfRows), std::end(kOfRows), field) != std::end(kOfRows);
  return reason_if(!of_rows, "dist.device = sim: nothing is computed, read or saved");
}

Topic simulation_topic() {
  std::vector<NoEffectRule> idle{
      {{"dist.cluster"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!c.dist.simulated(),
                          stated("dist.device", c.dist.device_kind()) + ", not sim");
       }},
  };
  return {refuse_simulation, std::move(idle)};
}

}  // namespace viaduct
