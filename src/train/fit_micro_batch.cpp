#include "train/fit_micro_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/physical_memory.h"
#include "base/units.h"
#include "checkpoint/save_folder.h"
#include "engine/plan_memory.h"
#include "run/parallel_settings.h"
#include "run/resolved_run.h"

namespace viaduct {
namespace {

/// The run with micro-batches of so many rows.
RunSetup with_rows(LoadedRunConfig loaded, int64_t rows) {
  loaded.config.train.micro_batch_size = rows;
  return prepare_run(std::move(loaded));
}

/// Bytes of the fullest rank: no rank of a stage needs more than its first.
int64_t bytes_of_rank(const RunSetup& setup) {
  const ResolvedRun run = resolve_run(setup.config, setup.model);
  int64_t most = 0;
  for (const GlobalRank rank : run.parallelism.mesh.at_each_stage({0})) {
    const PlannedMemory planned = plan_memory(setup, rank);
    const int64_t second = setup.config.offload.offload_path ? 0 : planned.offload.most_bytes;
    most = std::max(most, planned.plan.arena_bytes + second + planned.save_copy_bytes);
  }
  return most;
}

/// The rows of the checkpoint that the run resumes from; 0 where there is none.
int64_t rows_of_checkpoint(const CheckpointConfig& checkpoint) {
  const auto& load = checkpoint.load.value_or(checkpoint.save);
  if (!load || !has_latest(*load)) return 0;
  const std::filesystem::path file =
      std::filesystem::path(*load) /
      step_folder_name(checkpoint.ckpt_step.value_or(latest_step(*load))) / "config.yaml";
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return 0;
  RunConfig then;
  Problems other_version;
  const ConfigOutcome read = read_config(run_schema(then), {file, {}}, other_version);
  return read.is_given("train.micro_batch_size") ? then.train.micro_batch_rows() : 0;
}

/// Sizes that divide a data-parallel rank's share of the batch, the largest first.
std::vector<int64_t> possible_rows(const RunConfig& config) {
  const int64_t share = config.train.global_batch_size / data_parallel_size(config);
  std::vector<int64_t> sizes;
  for (int64_t rows = share; rows >= 1; --rows)
    if (share % rows == 0) sizes.push_back(rows);
  return sizes;
}

}  // namespace

RunSetup fit_micro_batch(const LoadedRunConfig& loaded, double memory_bytes, int64_t ranks_here) {
  const DeviceKind device = loaded.config.dist.device_kind();
  VIADUCT_CHECK(ConfigError, device == DeviceKind::cpu,
                "train.micro_batch_size: auto measures the memory of this machine, for "
                "dist.device=cpu, found {}; viaduct plan --model finds the rows for GPUs",
                choice_name(device));
  const int64_t batch = loaded.config.train.global_batch_size,
                data_ranks = data_parallel_size(loaded.config);
  VIADUCT_CHECK(ConfigError, batch >= data_ranks,
                "train.global_batch_size: {} is less than a row for each of the {} data-parallel "
                "ranks; nearest: {}",
                batch, data_ranks, data_ranks);
  std::string anew;  // why the rows of the checkpoint do not stay
  if (const int64_t rows = rows_of_checkpoint(loaded.config.checkpoint); rows > 0) {
    if (batch % (rows * data_ranks) == 0) {
      RunSetup setup = with_rows(loaded, rows);
      setup.notes.push_back(fmt::format("train.micro_batch_size=auto: {}, as in the checkpoint",
                                        counted(rows, "row")));
      return setup;
    }
    anew = fmt::format(
        "; chosen anew: {} of the checkpoint on {} do not divide train.global_batch_size = {}",
        counted(rows, "row"), counted(data_ranks, "data-parallel rank"), batch);
  }
  const double limit = memory_bytes * (1 - kFreeMemory) / static_cast<double>(ranks_here);
  std::string larger, refused;  // what did not fit last; why a size is no configuration
  bool any = false;
  for (const int64_t rows : possible_rows(loaded.config)) {
    std::optional<RunSetup> setup;
    try {
      setup = with_rows(loaded, rows);
    } catch (const ConfigError& error) {
      refused = error.what();
      continue;
    }
    any = true;
    const int64_t bytes = bytes_of_rank(*setup);
    if (static_cast<double>(bytes) > limit) {
      larger = fmt::format("{} would take {}", counted(rows, "row"), format_bytes(bytes));
      continue;
    }
    setup->notes.push_back(fmt::format(
        "train.micro_batch_size=auto: {}, {} of the {} that a rank may take ({:.0f} % of the "
        "memory stay free){}{}",
        counted(rows, "row"), format_bytes(bytes), format_bytes(static_cast<int64_t>(limit)),
        100 * kFreeMemory, larger.empty() ? "" : "; " + larger, anew));
    return *std::move(setup);
  }
  // What is wrong with every size is no matter of memory.
  VIADUCT_CHECK(ConfigError, any, "{}", refused);
  fail<ConfigError>(
      "train.micro_batch_size: auto: none fits: a rank may take {} ({:.0f} % of the memory stay "
      "free), and {}; shorter rows (model.seq_length), recompute (model.recompute_granularity=full "
      "model.recompute_method=uniform model.recompute_num_layers=1){} or "
      "more machines take less",
      format_bytes(static_cast<int64_t>(limit)), 100 * kFreeMemory, larger,
      loaded.config.peft.adapts() ? "" : ", an adapter (peft.scheme=lora)");
}

RunSetup fit_micro_batch(const LoadedRunConfig& loaded, const Launch& launch) {
  const int64_t ranks_here =
      launch.launcher == Launcher::none ? loaded.config.dist.ranks : launch.local_ranks;
  return fit_micro_batch(loaded, physical_memory_bytes(), std::max<int64_t>(1, ranks_here));
}

}  // namespace viaduct
