#pragma once
// The evaluations of a run while it trains: validation data, tasks and prompts at intervals, test
// data at its end, and the best evaluation so far. Every rank has one; all make the same calls.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/run_lock.h"
#include "engine/engine.h"
#include "inference/sample_answers.h"
#include "inference/task_evaluation.h"
#include "report/metrics_log.h"
#include "run/resolved_run.h"
#include "run/setup.h"
#include "train/train_state.h"
#include "train/training_data.h"
#include "train/watched_metric.h"

namespace viaduct {

class RunEvaluations {
 public:
  /// The run that is evaluated; all of it outlives this.
  struct Run {
    const RunSetup& setup;
    const ResolvedRun& resolved;
    Communicator& world;
    const TrainingData& data;
  };
  /// What an evaluation works with.
  struct Place {
    Engine& engine;
    TrainState& state;  // whose best evaluation it changes
    MetricsLog& log;
    std::function<bool()> stop;         // asked to stop: equal on all ranks
    std::function<bool()> owns_folder;  // figures may be written
  };

  /// Reads the files of tasks and prompts, and finds the metric to compare evaluations by. The same
  /// error on all ranks.
  explicit RunEvaluations(const Run& run);

  /// Takes over the evaluations that an earlier session made at this step. What it measured that
  /// may not be compared with what this session does is forgotten, and said: all of it if
  /// `rescaled`, because the checkpoint's adapters were trained with another scale.
  void take_before(const Place& place, bool rescaled);
  /// Evaluates what there is of validation samples, tasks and prompts, once for a step. False:
  /// asked to stop, not evaluated. UnreadRows if the data cannot be read.
  bool evaluate(const Place& place);
  /// Evaluates the test samples, if there are any: once, at the end of a run. UnreadRows likewise.
  void test(const Place& place);

  /// The state of this step is the best so far, and is to be kept.
  bool is_best_step(const TrainState& state) const;
  /// No evaluation was better for so long that the run ends, which is said.
  bool ends_early(const TrainState& state, MetricsLog& log) const;
  /// After a resume: SAVE/best names the best step of the history that this run continues. `lock`:
  /// of the rank that holds the folder; null on others.
  void settle_best(const TrainState& state, const RunLock* lock) const;

  /// The evaluations so far: (step, mean loss over the scored tokens of all validation sets).
  const std::vector<std::pair<int64_t, double>>& validations() const { return validations_; }
  const std::optional<double>& test_loss() const { return test_loss_; }

 private:
  bool leads() const { return run_.world.rank() == 0; }
  /// Sets what the figures of this session's evaluations are measured on.
  void identify();
  /// Forgets what may not be compared. Returns whether the validation loss of before may be.
  bool forget_other_measures(const Place& place, bool rescaled) const;
  /// False: asked to stop.
  bool evaluate_data(const Place& place, EvaluationFigures& figures);
  bool evaluate_tasks(const Place& place, EvaluationFigures& figures) const;
  void answer_prompts(const Place& place) const;
  /// Compares the evaluation of this step with those before.
  void judge_evaluation(const Place& place, const EvaluationFigures& figures) const;
  /// Evaluates `set`, fills in `metrics` and reports them. Nothing is returned if asked to stop;
  /// nothing is reported if no token is scored.
  std::optional<ValidationMetrics> evaluate(const Place& place, const EvaluationSet& set,
                                            ValidationMetrics metrics) const;

  Run run_;
  const RunConfig& config_;
  std::optional<PreparedTasks> tasks_;    // validation.tasks
  std::optional<SamplePrompts> prompts_;  // validation.sample_prompts
  std::optional<WatchedMetric> watched_;  // that evaluations are compared by
  std::string validated_on_;              // what their loss is measured on
  int64_t evaluated_step_ = -1;
  std::vector<std::pair<int64_t, double>> validations_;
  std::optional<double> test_loss_;
};

}  // namespace viaduct
