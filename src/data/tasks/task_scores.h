#pragma once
// From the scores of choices and continuations to the figures of tasks.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/tasks/task_file.h"

namespace viaduct {

/// The score of a choice or continuation.
struct TextLikelihood {
  double log_likelihood = 0;  // natural logarithm of the probability of its tokens
  /// Each of them is the one that the model gives the largest probability.
  bool is_greedy = false;
};

/// A mean over the lines of a task.
struct TaskMean {
  double value = 0;
  std::optional<double> error;  // standard error: s / √n with the sample deviation s; n of 1: none
};

/// Figures of a task; none of those that its lines do not give.
struct TaskFigures {
  std::string task;
  int64_t lines = 0;
  /// Share of lines whose right choice has the largest log-likelihood (the first of equal ones), or
  /// whose continuation is greedy.
  TaskMean acc;
  /// The same with log-likelihoods divided by the characters, and the UTF-8 bytes, of the choice.
  std::optional<TaskMean> acc_norm, acc_bytes;
  /// exp(−mean of the log-likelihoods) of the lines with a continuation.
  std::optional<double> perplexity;
};

/// The figures of each task, in the order of their first lines. `texts`: of each choice and
/// continuation, line after line.
std::vector<TaskFigures> task_figures(const TaskFile& file,
                                      const std::vector<TextLikelihood>& texts);

/// {"acc", "acc_stderr", "acc_norm", …, "lines"}; what a task has not is left out, a standard error
/// of one line is null.
nlohmann::ordered_json to_json(const TaskFigures& figures);

/// Name and value of each figure but standard errors and lines: "acc", "perplexity".
std::vector<std::pair<std::string, double>> named_figures(const TaskFigures& figures);

}  // namespace viaduct
