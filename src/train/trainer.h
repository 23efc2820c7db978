#pragma once
// The training loop of one rank: step after step, with evaluation, metrics, checkpoints, and an
// orderly stop. All ranks of a run execute the same loop; rank 0 reports.

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "base/function_ref.h"
#include "checkpoint/parameter_io.h"
#include "engine/document_batches.h"
#include "engine/engine.h"
#include "engine/plan_memory.h"
#include "hardware/cpu/peak.h"
#include "optim/schedules.h"
#include "report/metrics_log.h"
#include "report/offload_report.h"
#include "report/step_profiler.h"
#include "run/resolved_run.h"
#include "run/setup.h"
#include "train/checkpoint_keeper.h"
#include "train/run_evaluations.h"
#include "train/step_reporter.h"
#include "train/train_state.h"
#include "train/training_data.h"

namespace viaduct {

/// What the application passes in: where progress is printed, and when to stop.
struct TrainerHooks {
  std::FILE* display = nullptr;
  bool display_is_terminal = false;
  bool display_colours = false;  // it shows them
  /// Asked between steps and between micro-batches of an evaluation; true saves and ends the run
  /// ("stopped": "signal").
  std::function<bool()> stop_requested;
  /// Number of ranks on this machine; if null, all ranks of the run.
  std::optional<int> ranks_here;
  /// How long the machine's peak rate, the base of MFU, is measured at the start.
  PeakEffort peak_effort = PeakEffort::thorough;
};

class Trainer {
 public:
  /// Plans the memory (if nothing was allocated from `device` yet), builds everything, and loads or
  /// initializes the weights. `device` and `ops` must outlive the trainer.
  /// `world`: all ranks of the run (null: this one alone). Only rank 0 uses `hooks.display`.
  Trainer(const RunSetup& setup, Device& device, const OpTable& ops, TrainerHooks hooks,
          std::shared_ptr<Communicator> world = nullptr);

  /// Trains to the end, or until asked to stop. Throws Error if the run failed (NaN with
  /// nan_loss_action=stop, a failed save, …).
  void run();

  Engine& engine() { return *engine_; }
  const TrainState& state() const { return state_; }
  /// Whether this session made a step; false for a run whose checkpoint is its end.
  bool made_steps() const { return state_.step > began_at_; }
  /// Metrics and TensorBoard events that could not be written, one line for each file.
  std::vector<std::string> log_problems() const { return log_->problems(); }
  /// Empty if the device was in use before the trainer was built.
  const PlannedMemory& planned_memory() const { return planned_; }
  /// Empty if nothing is offloaded.
  const OffloadReport& offload() const { return offload_; }
  /// The loss on the test samples, measured when the run has finished. None without test samples,
  /// or if an earlier session of this run measured it.
  std::optional<double> test_loss() const { return evaluations_->test_loss(); }
  /// The evaluations so far: (step, mean loss over the scored tokens of all validation sets).
  const std::vector<std::pair<int64_t, double>>& validations() const {
    return evaluations_->validations();
  }

 private:
  void run_to_the_end();
  /// Work of this rank alone between steps. If it throws, the error is kept: the next step tells
  /// the other ranks, which end with this one, and all save what they have. False if it threw.
  bool on_this_rank(FunctionRef<void()> work);
  /// Why the run cannot go on, equal on all ranks; null while it can.
  std::exception_ptr common_failure();
  /// Saves the state of the last whole step, if there was one, and throws `failure`.
  [[noreturn]] void end_with(const std::exception_ptr& failure);
  /// A run that fails inside a step or an evaluation saves the state of its last whole step, if all
  /// ranks still have it: none has begun its update. The ranks have left the step, and meet anew.
  void save_before_failing(const std::exception& error);
  /// Rank 0 says how often the run reads its data.
  void note_data();
  /// Rank 0 warns of a resumed run whose learning rate does not end at its minimum.
  void note_end_of_schedule() const;
  /// Opens the second memory and measures its bandwidth; null if nothing is offloaded. ConfigError
  /// or IoError if it cannot be opened.
  std::unique_ptr<SlotMemory> open_second_memory();
  /// Bytes written to and read from the second memory so far, including those of saves and loads.
  OffloadCounts moved() const;
  /// Loads what the run continues from, or initializes it. Returns whether the checkpoint's
  /// adapters were trained with another scale.
  bool load_weights(std::unique_ptr<CheckpointReader> checkpoint);
  /// The frozen model of a run with adapters, and unless it resumes the adapters' first values.
  void begin_adapters(bool resumes);
  /// What is read of the optimizer's state with the weights; empty with load_optim=false.
  std::vector<TensorKind> optimizer_states() const;
  /// ConfigError on rank 0 if the run may not continue from the checkpoint; warns of other changes.
  /// Returns as `load_weights`.
  bool compare_with(const CheckpointReader& checkpoint);
  /// ConfigError unless the stored seed continues as the configuration demands.
  void check_seed(const TrainState& stored, const std::string& where) const;
  /// Restores the run's state from a checkpoint: the parts that the configuration asks for.
  void resume_state(const TrainState& stored);

  /// One global batch: forward, backward, update, metrics. Without a scored token the update is
  /// left out. False on all ranks, with nothing updated, if a rank cannot read its rows:
  /// `common_failure` says why.
  bool step();
  /// Before the second step of ranks with GPUs, as before the first (`stop_requested`): all hosts
  /// are here, so that a first use in the first step or after it, as of what the step saves, does
  /// not meet operations of a rank that is ahead.
  void meet_other_gpus();
  /// The engine's; what it throws before its update leaves a state that may be saved.
  StepResult finish_step(double scored);
  /// `read`, or blank rows and `failure_` if it fails. CommError if another rank has left the step.
  HostBatch read_or_blank(int64_t rows, FunctionRef<HostBatch()> read);
  /// A step of train.iterations_to_skip: consumes its rows without training on them.
  void skip_step();
  /// Rank 0 prints and logs a step; nobody if another run has taken checkpoint.save.
  void log_step(const StepMetrics& metrics);
  /// Error on all ranks if replicas of a weight differ.
  void check_replicas();
  void after_nan(const StepResult& result, const HostBatch& batch);
  /// Counts a step without a scored token, and warns of the first, second, fourth … of them.
  void note_nothing_scored();
  /// Counts an update that was skipped for values that are not finite against the limits of section
  /// `train`.
  void count_skipped();

  /// An evaluation of this step, or with `test` that at the end. False: asked to stop, or
  /// `failure_`.
  bool evaluate(bool test = false);
  RunEvaluations::Place evaluation_place();
  bool is_best_step() const { return evaluations_->is_best_step(state_); }
  void save(bool wait);
  SavedState saved_state() { return {*engine_, state_, schedules_, is_best_step()}; }
  /// Waits until the last save is complete, before the run reports it.
  void finish_last_save();

  /// True on all ranks if any rank was asked to stop.
  bool stop_requested();
  /// Between steps: what this rank asks of the others with the next step.
  void update_requests();
  /// The setting by which the run ends after this step; "" if none.
  std::string exit_reason() const;
  bool leads() const { return world_->rank() == 0; }

  const RunSetup& setup_;
  const RunConfig& config_;
  Device& device_;
  std::shared_ptr<Communicator> world_;
  ResolvedRun run_;
  TrainerHooks hooks_;
  PlannedMemory planned_;
  OffloadReport offload_;
  std::unique_ptr<StepProfiler> profiler_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<DocumentBatches> documents_;  // with hybrid context parallelism
  std::unique_ptr<TrainingData> data_;
  std::unique_ptr<RunEvaluations> evaluations_;
  BatchSchedule batches_;
  Schedules schedules_;
  LossScaler scaler_;
  std::unique_ptr<CheckpointKeeper> keeper_;
  std::unique_ptr<MetricsLog> log_;
  std::unique_ptr<StepReporter> reporter_;
  TrainState state_;
  std::vector<std::string> changed_;  // rank 0: settings that the checkpoint had not
  int64_t total_steps_ = 0;           // when the run is done
  StepRecord record_;  // counters of the current step, if ranks communicate and the profiler is off
  double run_begin_ = 0;  // wall clock
  int64_t began_at_ = 0;
  /// Weights and `state_` are those of one whole step and right, and no save is being tried: an
  /// error that ends the run here is followed by a save.
  bool may_save_ = true;
  std::exception_ptr failure_;   // of this rank: the run cannot go on, but has a state to save
  bool failure_of_all_ = false;  // it is the same one on all ranks
  bool ended_ = false;           // by `end_with`, which has saved what can be saved
  std::deque<int64_t> skipped_steps_;  // for NaN, in this session, among the last 100 steps
};

}  // namespace viaduct
