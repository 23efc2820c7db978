#include "train/watched_metric.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/nearest.h"
#include "data/split.h"

namespace viaduct {

std::string task_metric(const std::string& task, const std::string& figure) {
  return task + "/" + figure;
}

void add_figures(const std::vector<TaskFigures>& tasks, EvaluationFigures& figures) {
  for (const TaskFigures& task : tasks) {
    for (const auto& [name, value] : named_figures(task))
      figures[task_metric(task.task, name)] = value;
  }
}

std::vector<WatchedMetric> metrics_of_run(bool has_validation_data, const TaskFile* tasks) {
  std::vector<WatchedMetric> metrics;
  if (has_validation_data) metrics.push_back({kValidationLoss, false});
  if (tasks == nullptr) return metrics;
  for (const std::string& task : tasks->tasks()) {
    const auto any = [&](bool choice) {
      return std::any_of(tasks->lines.begin(), tasks->lines.end(), [&](const TaskLine& line) {
        return line.task == task && line.is_choice() == choice;
      });
    };
    metrics.push_back({task_metric(task, "acc"), true});
    if (any(true)) {
      metrics.push_back({task_metric(task, "acc_norm"), true});
      metrics.push_back({task_metric(task, "acc_bytes"), true});
    }
    if (any(false)) metrics.push_back({task_metric(task, "perplexity"), false});
  }
  return metrics;
}

std::string described(const WatchedMetric& metric) {
  return fmt::format("{} ({} is better)", metric.name,
                     metric.higher_is_better ? "higher" : "lower");
}

std::optional<WatchedMetric> watched_metric(const RunConfig& config,
                                            const std::vector<WatchedMetric>& metrics) {
  const auto& named = config.checkpoint.keep_best;
  if (!named && !config.train.early_stopping_patience) return std::nullopt;
  const std::string name = named.value_or(kValidationLoss);
  const auto found =
      std::find_if(metrics.begin(), metrics.end(), [&](auto& m) { return m.name == name; });
  if (found != metrics.end()) return *found;
  std::vector<std::string> valid, names;
  for (const WatchedMetric& metric : metrics) {
    valid.push_back(described(metric));
    names.push_back(metric.name);
  }
  const std::string there = valid.empty()
                                ? "none: the run has neither validation data nor validation.tasks"
                                : fmt::format("{}", fmt::join(valid, ", "));
  if (!named) {
    fail<ConfigError>(
        "train.early_stopping_patience: expected validation data, whose loss it follows, or "
        "checkpoint.keep_best with another metric; the evaluations of this run have: {}",
        there);
  }
  const std::optional<std::string> nearest = nearest_name(name, names);
  fail<ConfigError>(
      "checkpoint.keep_best: {} is no metric of this run's evaluations{}; they have: {}", name,
      nearest ? "; nearest: " + *nearest : "", there);
}

void check_watched_metric(const RunConfig& config) {
  const ValidationConfig& validation = config.validation;
  const DatasetConfig& data = config.dataset;
  std::optional<TaskFile> tasks;
  if (validation.tasks) tasks = read_task_file("validation.tasks", *validation.tasks);
  const bool has_data =
      data.mock || (data.blend_per_split ? (*data.blend_per_split)[1].has_value()
                                         : parse_split(data.split)[1].has_value());
  watched_metric(config,
                 metrics_of_run(validation.evaluates() && has_data, tasks ? &*tasks : nullptr));
}

bool is_out_of_patience(const std::optional<BestEvaluation>& best,
                        const std::optional<int64_t>& patience) {
  return best && patience && best->evaluations_since >= *patience;
}

bool same_measure(const std::string& before, const std::string& now) {
  return before.empty() || now.empty() || before == now;
}

bool is_compared_with(const WatchedMetric& metric, const BestEvaluation& best) {
  return best.metric == metric.name && same_measure(best.measured_on, metric.measured_on);
}

bool judge(const WatchedMetric& metric, const EvaluationFigures& figures, int64_t step,
           std::optional<BestEvaluation>& best) {
  if (best && !is_compared_with(metric, *best)) best.reset();
  // Of a checkpoint that does not say what its best value was measured on.
  if (best && best->measured_on.empty()) best->measured_on = metric.measured_on;
  if (best && best->judged_step == step) return false;
  const auto found = figures.find(metric.name);
  const bool measured = found != figures.end() && std::isfinite(found->second);
  const bool better =
      measured && (!best || (metric.higher_is_better ? found->second > best->value
                                                     : found->second < best->value));
  if (better) {
    best = BestEvaluation{metric.name, found->second, step, 0, step, metric.measured_on};
  } else if (best) {
    ++best->evaluations_since;
    best->judged_step = step;
  }
  return better;
}

}  // namespace viaduct
