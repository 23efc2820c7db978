#pragma once
// The training loop of one rank: step after step, with evaluation, metrics, checkpoints, and an
// orderly stop. All ranks of a run execute the same loop; rank 0 reports.

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "base/function_ref.h"
#include "checkpoint/async_saver.h"
#include "checkpoint/old_steps.h"
#include "checkpoint/parameter_io.h"
#include "checkpoint/run_lock.h"
#include "engine/document_batches.h"
#include "engine/engine.h"
#include "engine/plan_memory.h"
#include "hardware/cpu/peak.h"
#include "hardware/matmul_peak.h"
#include "model/flops.h"
#include "optim/schedules.h"
#include "report/metrics_log.h"
#include "report/offload_report.h"
#include "report/step_profiler.h"
#include "run/resolved_run.h"
#include "run/setup.h"
#include "train/sample_answers.h"
#include "train/task_evaluation.h"
#include "train/train_state.h"
#include "train/training_data.h"
#include "train/watched_metric.h"

namespace viaduct {

class CheckpointReader;

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
  std::optional<double> test_loss() const { return test_loss_; }
  /// The evaluations so far: (step, mean loss over the scored tokens of all validation sets).
  const std::vector<std::pair<int64_t, double>>& validations() const { return validations_; }

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
  /// The save of a failed run whose ranks are connected by `ranks`. Throws what prevents it.
  void save_with(Communicator& ranks);
  /// Rank 0 says how often the run reads its data.
  void note_data();
  /// Rank 0 warns of a resumed run whose learning rate does not end at its minimum.
  void note_end_of_schedule() const;
  /// Opens the second memory and measures its bandwidth; null if nothing is offloaded. ConfigError
  /// or IoError if it cannot be opened.
  std::unique_ptr<SlotMemory> open_second_memory();
  /// Bytes written to and read from the second memory so far, including those of saves and loads.
  OffloadCounts moved() const;
  /// Rank 0 takes checkpoint.save for this run, unless it has it, and removes what interrupted
  /// runs left there.
  void take_folder(bool now);
  /// The checkpoint that the run continues from; null: none.
  std::unique_ptr<CheckpointReader> open_resumed();
  void load_weights(std::unique_ptr<CheckpointReader> checkpoint);
  /// The frozen model of a run with adapters, and unless it resumes the adapters' first values.
  void begin_adapters(bool resumes);
  /// What is read of the optimizer's state with the weights; empty with load_optim=false.
  std::vector<TensorKind> optimizer_states() const;
  /// ConfigError on rank 0 if the run may not continue from the checkpoint; warns of other changes.
  void compare_with(const CheckpointReader& checkpoint);
  /// ConfigError unless the stored seed continues as the configuration demands.
  void check_seed(const TrainState& stored, const std::string& where) const;

  /// Sets what the figures of this session's evaluations are measured on. Called on all ranks.
  void identify_evaluations();
  /// Forgets what an earlier session measured that may not be compared with what this one does, and
  /// says so. Returns whether its validation loss may be.
  bool forget_other_measures();
  /// Takes over the evaluations that an earlier session made at this step.
  void take_evaluations_before();
  /// Restores the run's state from a checkpoint: the parts that the configuration asks for.
  void resume_state(const TrainState& stored);
  /// One global batch: forward, backward, update, metrics. Without a scored token the update is
  /// left out. False on all ranks, with nothing updated, if a rank cannot read its rows:
  /// `common_failure` says why.
  bool step();
  /// The engine's; what it throws before its update leaves a state that may be saved.
  StepResult finish_step(double scored);
  /// `read`, or blank rows and `failure_` if it fails. CommError if another rank has left the step.
  HostBatch read_or_blank(int64_t rows, FunctionRef<HostBatch()> read);
  /// A step of train.iterations_to_skip: consumes its rows without training on them.
  void skip_step();
  /// Error on all ranks if replicas of a weight differ.
  void check_replicas();
  /// Evaluates what there is of validation samples, tasks and prompts. False: asked to stop, not
  /// evaluated.
  bool evaluate();
  /// The loss on the validation samples; false as above.
  bool evaluate_data(EvaluationFigures& figures);
  /// Reads the files of tasks and prompts, and finds the metric to compare evaluations by. The same
  /// error on all ranks.
  void open_validation_files();
  bool evaluate_tasks(EvaluationFigures& figures);
  void answer_prompts();
  /// Compares the evaluation of this step with those before.
  void judge_evaluation(const EvaluationFigures& figures);
  /// After a resume: SAVE/best names the best step of the history that this run continues.
  void settle_best();
  /// The state of this step is the best so far, and is to be kept.
  bool is_best_step() const;
  /// No evaluation was better for so long that the run ends.
  bool ends_early();
  /// Evaluates the test samples, if there are any: once, at the end of a run.
  void test();
  /// Evaluates `set`, fills in `metrics` and reports them. Nothing is returned if asked to stop;
  /// nothing is reported if no token is scored.
  std::optional<ValidationMetrics> evaluate(const EvaluationSet& set, ValidationMetrics metrics);
  void save(bool wait);
  /// Error on all ranks if a weight or a moment of any rank is not finite, so that no such
  /// checkpoint is saved.
  void check_finite(Communicator& ranks, const StagedCheckpoint& staged);
  /// What this rank saves, with everything that a checkpoint of this run has.
  StagedCheckpoint stage(Staging staging);
  /// Waits until the last save is complete, before the run reports it.
  void finish_last_save();
  /// ", last checkpoint: …" for the error message of a failed run.
  std::string last_checkpoint() const;
  /// FolderTaken if another run has taken checkpoint.save. A lock that cannot be read is said once.
  void check_lock();
  /// False if another run has taken checkpoint.save: nothing is written there any more.
  bool owns_folder();
  /// Rank 0 writes the files of checkpoint.save that are not part of a checkpoint.
  void write_run_files() const;
  void after_nan(const StepResult& result, const HostBatch& batch);
  /// Counts a step without a scored token, and warns of the first, second, fourth … of them.
  void note_nothing_scored();
  /// Counts an update that was skipped for values that are not finite against the limits of section
  /// `train`.
  void count_skipped();
  /// True on all ranks if any rank was asked to stop.
  bool stop_requested();
  /// What a step processed.
  struct StepWork {
    double begin = 0;  // wall clock
    int64_t rows = 0;  // of all ranks
    int64_t tokens = 0;
    std::vector<int64_t> document_lengths;
    const StepRecord* record = nullptr;  // its counters begin with the step
  };
  /// What this rank contributes to the one host call of a step: its requests, and the times of its
  /// last step. It is filled between steps and sent with the next step; a rank alone applies it at
  /// once.
  struct LocalFigures {
    bool stop = false;            // this rank was asked to stop
    bool folder_deleted = false;  // rank 0 found that checkpoint.save was deleted
    double run_seconds = 0;
    int64_t step = 0;  // that the following times belong to; 0: no step yet
    double step_seconds = 0, data_seconds = 0, communication_seconds = 0;
  };
  /// The merged figures of all ranks, equal on all of them.
  struct MergedFigures {
    bool stop = false, folder_deleted = false, any_writes = false;  // of any rank
    double run_seconds = 0;                                         // maximum over ranks
    double tokens = 0;                                              // of the step, like `flops`
    FlopCount flops;
    std::optional<FiguresOfRanks> ranks;
  };
  /// `local_` and the figures of the current step, as the host call sends them.
  std::vector<HostFigure> figures(const StepWork& work) const;
  /// Fills `merged_` from the answer of the host call.
  void take_merged(const std::vector<FigureOfRanks>& figures);
  /// Between steps: fills the requests of `local_`; a rank alone copies them to `merged_`.
  void update_requests();
  /// On rank 0: checkpoint.save, or the lock in it, was deleted since `recreate_folder`.
  bool folder_was_deleted() const;
  void recreate_folder();
  /// The setting by which the run ends after this step; "" if none.
  std::string exit_reason() const;
  /// Rank 0 prints and logs a step with the figures of all ranks.
  void log_step(StepMetrics metrics, const StepWork& work);
  /// Adds the metrics that take time to compute; for logged steps only.
  void add_on_demand(StepMetrics& metrics, const StepWork& work);
  /// Replaces the picture of the experts' load beside metrics.jsonl.
  void draw_load(const std::vector<LayerRouting>& routing);
  bool is_logged(int64_t step) const {
    return step % config_.logger.log_interval == 0 || step == total_steps_;
  }
  /// Whether quantized operands are measured in this step (section `tensor_inspect`).
  bool inspects(int64_t step) const {
    const TensorInspectConfig& inspect = config_.tensor_inspect;
    return inspect.enabled && step % inspect.interval == 0 && is_logged(step);
  }
  /// FP64 runs on kernels that are made for checks: they have rates, but no MFU.
  bool measures_peak() const;
  /// Measures the machine's peak rate again, if the last time is long ago or a step was faster.
  void update_peak(double tflops_per_rank);
  /// Notes the files that `finish` wrote. The run continues without them if it cannot.
  void note_profiles(FunctionRef<std::vector<std::filesystem::path>()> finish);
  bool leads() const { return world_->rank() == 0; }
  std::map<std::string, std::string> checkpoint_files() const;

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
  std::optional<PreparedTasks> tasks_;             // validation.tasks
  std::optional<SamplePrompts> prompts_;           // validation.sample_prompts
  std::optional<WatchedMetric> watched_;           // that evaluations are compared by
  std::string validated_on_;                       // what their loss is measured on
  std::vector<std::string> changed_;               // rank 0: settings that the checkpoint had not
  std::vector<DatasetFingerprint> fingerprints_;   // rank 0, of a run that saves or resumes
  std::map<std::string, std::string> side_texts_;  // rank 0: the tokenizer's files, by name
  bool rescaled_ = false;  // the checkpoint's adapters were trained with another scale
  std::string base_text_;  // rank 0: what the adapters' base is (train/base_model.h)
  BatchSchedule batches_;
  Schedules schedules_;
  LossScaler scaler_;
  std::shared_ptr<RunLock> lock_;        // of checkpoint.save, held by rank 0
  std::shared_ptr<OldSteps> old_steps_;  // of rank 0; destroyed before the lock
  std::unique_ptr<AsyncSaver> saver_;
  std::unique_ptr<MetricsLog> log_;
  QuantizationLog quantization_;  // of the current step
  MatmulPeak peak_;               // the highest measured
  double peak_measured_at_ = 0;
  bool peak_confirmed_ = false;  // measured twice at least
  TrainState state_;
  int64_t total_steps_ = 0;  // when the run is done
  StepRecord record_;  // counters of the current step, if ranks communicate and the profiler is off
  LocalFigures local_;
  MergedFigures merged_;
  int64_t peak_memory_bytes_ = 0;  // maximum over ranks, as of the last host call
  double run_begin_ = 0;           // wall clock
  int64_t began_at_ = 0, saved_step_ = -1, evaluated_step_ = -1;
  int64_t handled_recreations_ = 0;  // of RunLock::folders_made_again
  bool saved_ = false;               // this session saved a checkpoint
  /// Weights and `state_` are those of one whole step and right, and no save is being tried: an
  /// error that ends the run here is followed by a save.
  bool may_save_ = true;
  std::exception_ptr failure_;   // of this rank: the run cannot go on, but has a state to save
  bool failure_of_all_ = false;  // it is the same one on all ranks
  bool ended_ = false;           // by `end_with`, which has saved what can be saved
  bool lock_unread_ = false;     // said that the lock cannot be read
  std::deque<int64_t> skipped_steps_;  // for NaN, in this session, among the last 100 steps
  std::vector<std::pair<int64_t, double>> validations_;
  std::optional<double> test_loss_;
};

}  // namespace viaduct
