#pragma once
// viaduct eval --tasks: choices and continuations scored by a model.

#include "evaluated_models.h"
#include "inference/task_evaluation.h"

namespace viaduct::cli {

struct TaskArguments {
  TaskEvaluationRequest request;
  bool rows = false;  // prints the log-likelihoods of each line
};

using EvaluatedTasks = std::vector<EvaluatedModel<TaskEvaluation>>;

/// Evaluates and prints; rank 0 alone prints, when everything is done. `json`: one document.
void run_task_evaluation(const EvaluatedTasks& models, const Launch& launch, bool rows, bool json);

}  // namespace viaduct::cli
