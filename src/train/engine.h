#pragma once
// One rank's training engine: model, weights, gradients and optimizer on a device, and the step
// made of micro-batches. `train`, `probe`, `bench` and the tests all run this step; a dry run runs
// it on the sim device.

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "comm/parallel_groups.h"
#include "model/model_stage.h"
#include "ops/table.h"
#include "optim/gradient_norm.h"
#include "optim/large_gradients.h"
#include "train/host_batch.h"
#include "train/resolved_run.h"
#include "train/step_inputs.h"

namespace viaduct {

struct StepResult {
  double loss = 0;       // mean over the scored tokens of the global batch
  double grad_norm = 0;  // before clipping
  bool skipped = false;  // a gradient was not finite: weights and moments are as before
};

class Engine {
 public:
  /// Builds the model on `device` with the ops of `ops`; these and the run outlive the engine.
  /// Weights are uninitialised. `groups`: this rank's communicators; all ranks of a run build their
  /// engines alike.
  Engine(Device& device, const OpTable& ops, const ModelConfig& config, const ResolvedRun& run,
         ParallelGroups groups = self_groups());
  Engine(Device&, const OpTable&, const ModelConfig&, ResolvedRun&&, ParallelGroups = {}) = delete;

  const Model& model() const { return *model_; }
  ParameterStore& store() { return *store_; }
  const ParameterStore& store() const { return *store_; }
  /// Null unless the purpose is to train.
  AdamW* optimizer() { return optimizer_.get(); }
  Device& device() { return device_; }
  const ResolvedRun& run() const { return run_; }
  const ParallelGroups& groups() const { return groups_; }
  /// A context for this rank; `training` turns dropout on, `gradients` the backward.
  RankContext context(bool training, bool gradients);

  /// Where what the saved policy offloads goes, instead of `second_memory`; outlives the engine.
  void offload_to(SecondMemory& memory) { second_memory_ = &memory; }
  /// The run's second memory, made at the first call (on sim it is counted alone); null where
  /// nothing is offloaded, or goes elsewhere. ConfigError if it cannot be made.
  SlotMemory* second_memory();
  /// Random initial weights from the seed.
  void initialize();

  // A step: begin, micro-batches, finish.
  void begin_step(const StepInputs& inputs);
  /// Forward and backward of the rank's micro-batches 0 … count − 1 in the order of the pipeline
  /// schedule; `batch_at(i)` is called once for each, in ascending order.
  void run_micro_batches(int64_t count, FunctionRef<HostBatch(int64_t)> batch_at,
                         bool dropout = true);
  /// Tells the other ranks' hosts `scored_weight` as soon as it is known (as `finish_step` has it),
  /// and `figures` with it, so that nobody waits for them at the end: the one call of the hosts in
  /// a step. Where the loss is a mean of means, after `run_micro_batches` began, which counts
  /// them. Where it is not called, `finish_step` does it.
  void post_scored(double scored_weight, std::span<const HostFigure> figures = {});
  /// What all ranks said by the `figures` of the last step that was finished.
  const std::vector<FigureOfRanks>& told() const { return told_; }
  /// `scored_weight`: sum over the rows of this data-parallel rank, as given to it; the loss is a
  /// mean over the sum of all. Updates unless `update` is false (an engine that is not for training
  /// cannot). The result is the same on all
  /// ranks.
  StepResult finish_step(double scored_weight, bool update = true);

  const PhaseSeconds& phases() const { return phases_; }
  void reset_phases() { phases_ = {}; }

  /// Sum of the weighted token losses of all ranks' micro-batches 0 … count − 1, without gradients.
  /// They go through the stages of the pipeline one behind the other; `batch_at` as above.
  double evaluate(int64_t count, FunctionRef<HostBatch(int64_t)> batch_at);

  /// Which of a micro-batch's tokens this rank has.
  BatchPlace batch_place() const {
    return viaduct::batch_place(groups_, run_.layers.sequence_parallel);
  }
  /// The part of this data-parallel rank's rows that this rank computes on, on the device.
  Batch upload_part(const HostBatch& rows);
  /// The forward of a batch alone through all pipeline stages, without dropout, keeping nothing:
  /// `instead_of_head` as ModelStage; `watch` as WatchLayers, where there is one.
  void forward(const Batch& batch, StageSettings::HeadCall instead_of_head = {},
               WatchLayers::Function watch = {});

  /// The main gradient times this is the gradient of the mean (after finish_step).
  double gradient_factor() const { return gradient_factor_; }

 private:
  ScheduleSettings schedule_of(int64_t micro_batches) const;
  /// Runs the forwards of micro-batches 0 … count − 1 through all stages.
  void run_forwards(int64_t count, const StageSettings& settings, ModelStage::BatchAt batch_at);
  /// The ranks that share a micro-batch's documents with this one.
  Communicator& document_group(int ranks) const;
  /// Which of the micro-batches and chunks follow PartialRecompute::others.
  std::set<std::pair<int64_t, int>> later_micro_batches(const ActionList& actions) const;
  DType message_format() const {
    return run_.parallelism.message_format.value_or(run_.layers.precision.stream);
  }
  /// Error on all ranks if a bucket of one has an unusually large gradient
  /// (ddp.check_for_large_grads).
  void check_large_gradients();
  /// The merged loss sum of all ranks; resets nothing.
  double total_loss(std::string_view reason);
  void write_scalar(StepScalar slot, double value);
  double read_scalar(StepScalar slot, std::string_view reason);

  Device& device_;
  const OpTable& ops_;
  const ResolvedRun& run_;
  ParallelGroups groups_;
  SecondMemory* second_memory_ = nullptr;    // somebody else's
  std::unique_ptr<SlotMemory> slot_memory_;  // or its own
  std::unique_ptr<Model> model_;
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<AdamW> optimizer_;
  std::unique_ptr<GradientNorm> gradient_norm_;
  LargeGradients large_gradients_;
  Tensor scalars_, loss_state_;
  Tensor host_scalars_;  // staging of the block
  double loss_scale_ = 1, gradient_factor_ = 1;
  PendingFigures scored_;  // of this step, once posted
  std::vector<FigureOfRanks> told_;
  int64_t update_ = 0;         // of this step
  int64_t micro_batches_ = 0;  // of this rank's step so far
  PhaseSeconds phases_;
};

}  // namespace viaduct
