#pragma once
// Tasks, whose choices and continuations a model scores: as `viaduct eval --tasks` does, and the
// training loop at its evaluations (validation.tasks).

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "data/tasks/task_scores.h"
#include "data/tasks/task_tokens.h"
#include "engine/score_texts.h"
#include "run/inference_setup.h"

namespace viaduct {

/// A file of tasks in tokens of a model.
struct PreparedTasks {
  TaskFile file;
  std::vector<TextToScore> texts;  // joined
  size_t requests = 0;             // choices and continuations of all lines
  int64_t shortened = 0;           // of them, that lost tokens on the left
};

/// For a model that reads at most `row` tokens. Errors of `task_tokens` and `cut_to_row`.
PreparedTasks prepare_tasks(TaskFile file, std::vector<ScoredTokens> tokens, int64_t row);
/// "FILE: texts longer than a row of 2048 tokens lose tokens on the left: 12 of 40"; "" if none
/// is.
std::string shortened_text(const PreparedTasks& tasks, int64_t row);

struct TaskEvaluationRequest {
  InferenceRequest inference;
  std::filesystem::path tasks;
  /// Examples before each context: the first of a file.
  int64_t few_shot = 0;
  std::optional<std::filesystem::path> examples = {};
  std::string delimiter = " ";
};

struct TaskEvaluation {
  RunSetup run;
  PreparedTasks tasks;
};

/// Opens model and files; reads no weight. A row has the given length, else what the longest text
/// needs, up to the model's positions. ConfigError without a tokenizer and for few_shot examples
/// without a file; IoError for lines that are no tasks.
TaskEvaluation prepare_task_evaluation(const TaskEvaluationRequest& request);

struct TaskScore {
  std::vector<TextLikelihood> texts;  // of each choice and continuation, line after line
  std::vector<TaskFigures> figures;   // of each task
};

/// Every rank of `world` makes the same call and gets the same result. `progress` gets the numbers
/// of finished and of all micro-batches.
TaskScore evaluate_tasks(const TaskEvaluation& evaluation, Device& device, const OpTable& ops,
                         std::shared_ptr<Communicator> world,
                         std::function<void(int64_t done, int64_t of)> progress = {});

}  // namespace viaduct
