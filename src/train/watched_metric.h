#pragma once
// The metric by which a run compares its evaluations: to keep the best checkpoint
// (checkpoint.keep_best), and to end early (train.early_stopping_patience).

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/tasks/task_file.h"
#include "data/tasks/task_scores.h"
#include "run/run_config.h"
#include "train/train_state.h"

namespace viaduct {

struct WatchedMetric {
  std::string name;  // "validation_loss", "TASK/acc"
  bool higher_is_better = false;
  /// What it is measured on (measured_on.h); "": not known.
  std::string measured_on = {};

  bool operator==(const WatchedMetric&) const = default;
};

/// What evaluations measured, by name of the metric.
using EvaluationFigures = std::map<std::string, double>;

constexpr const char* kValidationLoss = "validation_loss";

/// "TASK/FIGURE".
std::string task_metric(const std::string& task, const std::string& figure);
void add_figures(const std::vector<TaskFigures>& tasks, EvaluationFigures& figures);

/// The metrics of a run's evaluations. `tasks`: of validation.tasks; null: none.
std::vector<WatchedMetric> metrics_of_run(bool has_validation_data, const TaskFile* tasks);

/// The metric that the configuration asks for; nothing if it compares nothing. ConfigError, with
/// those that the evaluations have, for any other.
std::optional<WatchedMetric> watched_metric(const RunConfig& config,
                                            const std::vector<WatchedMetric>& metrics);

/// What a dry run can tell before data are opened: ConfigError for a file of tasks that is none,
/// and for a metric that the evaluations will not have.
void check_watched_metric(const RunConfig& config);

/// "facts/acc (higher is better)".
std::string described(const WatchedMetric& metric);

/// Whether the best evaluation is this long ago (train.early_stopping_patience).
bool is_out_of_patience(const std::optional<BestEvaluation>& best,
                        const std::optional<int64_t>& patience);

/// Whether what was measured on `before` and on `now` may be compared: where one is not known, "",
/// they are taken as the same.
bool same_measure(const std::string& before, const std::string& now);
/// Whether values of the metric may be compared with the best one.
bool is_compared_with(const WatchedMetric& metric, const BestEvaluation& best);

/// Compares the evaluation after `step` with the best one before, and returns whether it is better:
/// a figure that is missing or not finite is not. An evaluation of a step is compared once, and a
/// best one by another metric, or measured on something else, is forgotten.
bool judge(const WatchedMetric& metric, const EvaluationFigures& figures, int64_t step,
           std::optional<BestEvaluation>& best);

}  // namespace viaduct
