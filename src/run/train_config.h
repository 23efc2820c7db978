#pragma once
// Sections `train`, `validation`, `logger`, `profiling` and `rng`: the loop and its reports.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "config/field.h"

namespace viaduct {

/// What values that are not finite do.
enum class NanAction { stop, skip };
constexpr auto choice_names(NanAction) {
  return std::to_array<std::string_view>({"stop", "skip"});
}

/// Which FLOPs a rate counts (model/flops.h): `full` also those that causal attention skips.
enum class CountedFlops { model, full };
constexpr auto choice_names(CountedFlops) {
  return std::to_array<std::string_view>({"model", "full"});
}

/// Signals by which a batch system says that the time of a run ends.
enum class WarningSignal { hup, usr1, usr2 };
constexpr auto choice_names(WarningSignal) {
  return std::to_array<std::string_view>({"SIGHUP", "SIGUSR1", "SIGUSR2"});
}

struct TrainConfig {
  int64_t train_iters = 300'000;
  /// Length of the run in rows; train_iters follows from it.
  std::optional<int64_t> train_samples;
  int64_t global_batch_size = 32;
  /// [start, increment, rows of data over which the batch grows to global_batch_size].
  std::optional<std::vector<int64_t>> rampup_batch_size;
  bool decrease_batch_size_if_needed = false;
  /// auto: found by train/fit_micro_batch.h.
  Auto<int64_t> micro_batch_size = int64_t{2};
  std::optional<int64_t> exit_interval;
  std::optional<double> exit_duration_in_mins;
  std::optional<int64_t> early_stopping_patience;
  NanAction nan_loss_action = NanAction::stop;
  std::optional<int64_t> max_skipped_in_a_row = 10;
  double max_skipped_rate = 0.2;
  bool skip_train = false;
  /// Numbers of steps that are skipped.
  std::vector<int64_t> iterations_to_skip;
  std::optional<int64_t> check_weight_hash_across_dp_replicas_interval;
  std::vector<WarningSignal> exit_signals{WarningSignal::hup, WarningSignal::usr1,
                                          WarningSignal::usr2};

  /// Rows of a micro-batch. While that is `auto`: 1, which must be legal if any number is.
  int64_t micro_batch_rows() const { return micro_batch_size.value_or(1); }
};

struct ValidationConfig {
  int64_t eval_interval = 500;
  int64_t eval_iters = 32;
  bool multiple_validation_sets = false;
  bool full_validation = false;
  std::optional<std::string> tasks;
  std::optional<std::string> sample_prompts;
  int64_t sample_tokens = 64;

  /// Whether validation data are evaluated.
  bool evaluates() const { return full_validation || eval_iters > 0; }
  /// Whether there is anything to do at eval_interval.
  bool any() const { return evaluates() || tasks || sample_prompts; }
};

struct LoggerConfig {
  int64_t log_interval = 10;
  bool log_throughput = true;
  int timing_log_level = 0;
  bool log_params_norm = false;
  bool log_num_zeros_in_grad = false;
  bool log_memory_to_tensorboard = false;
  bool moe_per_layer_logging = false;
  /// `auto`: checkpoint.save/tensorboard, none without checkpoint.save.
  Auto<std::optional<std::string>> tensorboard_dir;
  CountedFlops flops = CountedFlops::model;
};

struct ProfilingConfig {
  bool use_nsys_profiler = false;
  std::vector<std::string> nsys_trace{"nvtx", "cuda"};
  bool trace = false;
  int64_t profile_step_start = 10;
  int64_t profile_step_end = 12;
  std::vector<int> profile_ranks{0};
  bool record_shapes = false;
  bool record_memory_history = false;
  std::string memory_snapshot_path = "memory_snapshot.json";
};

struct RngConfig {
  int64_t seed = 1234;
};

FieldGroup train_fields(TrainConfig& config);
FieldGroup validation_fields(ValidationConfig& config);
FieldGroup logger_fields(LoggerConfig& config);
FieldGroup profiling_fields(ProfilingConfig& config);
FieldGroup rng_fields(RngConfig& config);

}  // namespace viaduct
