#pragma once
// The training loop of one rank: step after step, with evaluation, metrics, checkpoints, and an
// orderly stop. All ranks of a run are in the same loop; rank 0 reports.

#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "checkpoint/async_saver.h"
#include "checkpoint/old_steps.h"
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
#include "train/train_state.h"
#include "train/training_data.h"

namespace viaduct {

class CheckpointReader;

/// What the application passes in: where lines for people go, and whether it wants the run to stop.
struct TrainerHooks {
  std::FILE* display = nullptr;
  bool display_is_terminal = false;
  /// Asked between steps and between micro-batches of an evaluation; true saves and ends the run
  /// ("stopped": "signal").
  std::function<bool()> stop_requested;
  /// Ranks on this machine; null: all of the run.
  std::optional<int> ranks_here;
  /// How long the peak of MFU is measured at the start.
  PeakEffort peak_effort = PeakEffort::thorough;
};

class Trainer {
 public:
  /// Plans the memory of a device that nothing was allocated from yet, builds everything, loads or
  /// initializes weights. `device` and `ops` outlive the trainer.
  /// `world`: all ranks of the run (null: this one alone); of `hooks`, the display is rank 0's.
  Trainer(const RunSetup& setup, Device& device, const OpTable& ops, TrainerHooks hooks,
          std::shared_ptr<Communicator> world = nullptr);

  /// Trains to the end, or until asked to stop. Throws Error if the run failed (NaN with
  /// nan_loss_action=stop, a failed save, …).
  void run();

  Engine& engine() { return *engine_; }
  const TrainState& state() const { return state_; }
  /// Metrics and TensorBoard events that could not be written, one line for each file.
  std::vector<std::string> log_problems() const { return log_->problems(); }
  /// Empty where the device was in use before.
  const PlannedMemory& planned_memory() const { return planned_; }
  /// Empty where nothing is offloaded.
  OffloadReport offload() const;
  /// The loss on the test samples, once the run has come to its end; none without them, or where
  /// an earlier session said it.
  std::optional<double> test_loss() const { return test_loss_; }
  /// The evaluations so far: (step, mean loss over the scored tokens of all validation sets).
  const std::vector<std::pair<int64_t, double>>& validations() const { return validations_; }

 private:
  void run_to_the_end();
  /// Makes the second memory, where something is offloaded, and measures it. ConfigError, IoError
  /// if it is not to be had.
  void open_second_memory();
  void load_weights();
  /// ConfigError on rank 0 if the run may not go on with the checkpoint; other changes are said.
  void compare_with(const CheckpointReader& checkpoint);
  /// ConfigError unless random numbers go on as the configuration wants it.
  void check_seed(const TrainState& stored, const std::string& where) const;

  /// Takes over the evaluations of an earlier session at this step.
  void take_evaluations_before();
  /// Takes over what a checkpoint says of the run, as far as the configuration wants it.
  void resume_state(const TrainState& stored);
  /// One global batch: forward, backward, update, metrics.
  void step();
  /// A step of train.iterations_to_skip: its rows are consumed, and that is all.
  void skip_step();
  /// Error on all ranks if a copy of the weights differs from another one.
  void check_replicas();
  /// On the validation samples, where there are some; gives up when asked to stop.
  void evaluate();
  /// On the test samples, where there are some: at the end of a run, once.
  void test();
  /// Evaluates `set` and reports `metrics`, filled in; gives up when asked to stop (nothing), and
  /// says nothing where nothing is scored.
  std::optional<ValidationMetrics> evaluate(const EvaluationSet& set, ValidationMetrics metrics);
  void save(bool wait);
  /// Error on all ranks if any holds a weight or a moment that is not finite: that is no
  /// checkpoint.
  void check_finite(const StagedCheckpoint& staged);
  /// After the last save: the run ends with what it says it leaves.
  void make_sure_of_last_save();
  /// ", last checkpoint: …" for messages of a run that fails.
  std::string last_checkpoint() const;
  /// What is no part of a checkpoint, written to checkpoint.save by the rank that reports.
  void write_run_files() const;
  void after_nan(const StepResult& result, const HostBatch& batch);
  /// Counts a skipped update against the limits of section `train`.
  void count_skipped();
  /// Agreed by all ranks: true if one of them is asked to stop.
  bool stop_requested();
  /// What a step was made of.
  struct StepWork {
    double begin = 0;  // wall clock
    int64_t rows = 0;  // of all ranks
    int64_t tokens = 0;
    std::vector<int64_t> document_lengths;
    const StepRecord* record = nullptr;  // counts from the step's begin on
  };
  /// What a rank tells the others in the one call of a step: what it asks for, and how its last
  /// step was. `said_` is filled between steps and travels with the next one; alone it is heard at
  /// once.
  struct Said {
    bool stop = false;         // it is asked to stop
    bool folder_gone = false;  // rank 0 finds that checkpoint.save was deleted
    double run_seconds = 0;
    int64_t step = 0;  // of what follows; 0: no step yet
    double step_seconds = 0, data_seconds = 0, communication_seconds = 0;
  };
  /// What of it all ranks have heard, the same on all of them.
  struct Heard {
    bool stop = false, folder_gone = false, any_writes = false;
    double run_seconds = 0;  // the most
    double tokens = 0;       // of the step, like `flops`
    FlopCount flops;
    std::optional<FiguresOfRanks> ranks;
  };
  /// `said_`, and what this rank knows of the step under way.
  std::vector<HostFigure> figures(const StepWork& work) const;
  void hear(const std::vector<FigureOfRanks>& told);
  /// Between steps: what this rank asks for now, heard at once if it is alone.
  void ask();
  /// Of rank 0: checkpoint.save, or the lock in it, was deleted since `take_folder_again`.
  bool folder_was_deleted() const;
  void take_folder_again();
  bool should_exit() const;
  /// What all ranks report of a step, on rank 0's line.
  void log_step(StepMetrics metrics, const StepWork& work);
  /// What takes time to find out, of steps that are logged.
  void add_on_demand(StepMetrics& metrics, const StepWork& work);
  bool is_logged(int64_t step) const {
    return step % config_.logger.log_interval == 0 || step == total_steps_;
  }
  /// Measures the peak of MFU again, if the last time is long ago or a step was faster than it.
  void look_at_peak(double tflops_per_rank);
  void note_profiles(const std::vector<std::filesystem::path>& files);
  bool leads() const { return world_->rank() == 0; }
  std::map<std::string, std::string> checkpoint_files() const;

  const RunSetup& setup_;
  const RunConfig& config_;
  Device& device_;
  std::shared_ptr<Communicator> world_;
  ResolvedRun run_;
  TrainerHooks hooks_;
  PlannedMemory planned_;
  OffloadReport offload_;  // but for what is done
  std::unique_ptr<StepProfiler> profiler_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<DocumentBatches> documents_;  // under hybrid context parallel
  std::unique_ptr<TrainingData> data_;
  std::vector<DatasetFingerprint> fingerprints_;  // rank 0, of a run that saves or resumes
  BatchSchedule batches_;
  Schedules schedules_;
  LossScaler scaler_;
  std::shared_ptr<RunLock> lock_;        // of checkpoint.save, held by rank 0
  std::shared_ptr<OldSteps> old_steps_;  // of rank 0; gone before the lock
  std::unique_ptr<AsyncSaver> saver_;
  std::unique_ptr<MetricsLog> log_;
  MatmulPeak peak_;  // the best seen
  double peak_seen_at_ = 0;
  TrainState state_;
  int64_t total_steps_ = 0;  // when the run is done
  StepRecord record_;  // counts the step under way, where ranks communicate and nobody profiles
  Said said_;
  Heard heard_;
  int64_t peak_memory_bytes_ = 0;  // the most of any rank, as far as heard
  double run_begin_ = 0;           // wall clock
  int64_t saved_step_ = -1, evaluated_step_ = -1;
  int64_t folders_made_again_ = 0;     // of lock_, as far as this loop has dealt with
  bool saved_ = false;                 // this session saved something
  std::deque<int64_t> skipped_steps_;  // of this session, for NaN; among the last 100
  std::vector<std::pair<int64_t, double>> validations_;
  std::optional<double> test_loss_;
};

}  // namespace viaduct
