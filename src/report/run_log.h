#pragma once
// What a run wrote into `metrics.jsonl`, read back.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/session_log.h"

namespace viaduct {

/// A line of a step. Fields that the line does not have, or that are null, are empty.
struct LoggedStep {
  int64_t step = 0;
  double step_seconds = 0, communication_seconds = 0, data_seconds = 0;
  int64_t peak_memory_bytes = 0, skipped = 0;
  int64_t nothing_scored = 0;  // of those skipped
  std::optional<double> loss, grad_norm, learning_rate, tokens_per_second, tflops_per_rank, mfu;
  /// Of the rank that took longest, and its number.
  std::optional<double> slowest_seconds;
  std::optional<int64_t> slowest_rank;
  /// Largest load of an expert, of an equal share.
  std::optional<double> expert_load;
  /// Means over layers of the routers' other figures, by name (report/router_figures.h).
  std::map<std::string, double> router_means;
};

struct LoggedValidation {
  int64_t step = 0;
  double loss = 0;
  std::string set;  // name of its data, where there are several
  bool test = false;
};

/// A figure of a task by an evaluation: accuracies, perplexity.
struct LoggedFigure {
  int64_t step = 0;
  std::string task, name;
  double value = 0;
};

/// What the model said to a prompt.
struct LoggedAnswer {
  int64_t step = 0;
  std::string prompt, answer;
};

struct RunLog {
  std::vector<LoggedStep> steps;
  std::vector<LoggedValidation> validations;
  std::vector<LoggedFigure> figures;
  std::vector<LoggedAnswer> answers;
  std::vector<SessionStart> sessions;  // that continued the run, from beside metrics.jsonl
  std::string stopped;                 // the reason of the last line, if the run says one
  std::string mfu_peak, flop_convention;
  int64_t tokens = 0;      // consumed by the last step
  bool simulated = false;  // its seconds were not measured on a machine
  /// Numbers of the lines that are neither a step, a validation (of data, tasks or prompts) nor an
  /// end.
  std::vector<int64_t> unknown_lines;
  bool truncated = false;  // the last line is incomplete: the run was killed while it wrote
};

/// What the log leaves out of the file: "metrics.jsonl: not shown: 2 of its lines …"; "" if
/// nothing.
std::string left_out_text(const RunLog& log, const std::filesystem::path& metrics);

/// IoError with the line if the file cannot be read, is not metrics.jsonl, or has no step.
RunLog read_run_log(const std::filesystem::path& metrics);

/// Middle value; of an even number, the mean of the two. `values` is not empty.
double median(std::vector<double> values);

/// A run's steady state. The first step, which touches all memory for the first time, counts only
/// if there is no other.
struct MeasuredSteps {
  int64_t steps = 0;
  double step_seconds = 0;           // the median
  double communication_seconds = 0;  // the median: what compute waited for
  double data_seconds = 0;           // the median: waiting for the next batch
  int64_t peak_memory_bytes = 0;     // the maximum over steps and ranks
  bool simulated = false;
};
MeasuredSteps measured_steps(const RunLog& log);

}  // namespace viaduct
