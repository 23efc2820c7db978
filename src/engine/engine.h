#pragma once
// One rank's training engine: model, weights, gradients and optimizer on a device, and the step
// made of micro-batches. `train`, `probe`, `bench` and the tests all run this step; a dry run runs
// it on the sim device.

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/function_ref.h"
#include "comm/parallel_groups.h"
#include "engine/host_batch.h"
#include "engine/layer_graph_hooks.h"
#include "engine/step_graph.h"
#include "engine/step_inputs.h"
#include "model/gather_segments.h"
#include "model/model_stage.h"
#include "nn/delayed_scales.h"
#include "nn/row_norms.h"
#include "ops/table.h"
#include "optim/gradient_norm.h"
#include "optim/large_gradients.h"
#include "run/resolved_run.h"
#include "timeline/action_log.h"

namespace viaduct {

class RouterLog;

struct StepResult {
  double loss = 0;       // mean over the scored tokens of the global batch
  double grad_norm = 0;  // before clipping
  /// A gradient was not finite, or nothing is scored: weights and moments are as before.
  bool skipped = false;
  /// No token of the global batch is scored, so there is no loss and no gradient: 0, and
  /// `depth_losses` is empty.
  bool nothing_scored = false;
  /// A rank had no rows (`post_scored`), so nothing was updated: weights, moments and scales are
  /// those of before the step, and the other figures say nothing.
  bool abandoned = false;
  /// Of multi-token prediction, by depth: mean over the tokens of the global batch that the depth
  /// scores, without its factor in the total.
  std::vector<double> depth_losses;
};

class Engine {
 public:
  /// Builds the model on `device` with the ops of `ops`; `device`, `ops` and `run` must outlive the
  /// engine. Weights are uninitialised.
  /// `groups`: this rank's communicators. All ranks of a run build their engines with the same
  /// arguments.
  /// `opened`: the second memory that offloaded tensors go to; if null, it is opened at first use.
  Engine(Device& device, const OpTable& ops, const ModelConfig& config, const ResolvedRun& run,
         ParallelGroups groups = self_groups(), std::unique_ptr<SlotMemory> opened = nullptr);
  Engine(Device&, const OpTable&, const ModelConfig&, ResolvedRun&&, ParallelGroups = {}) = delete;

  const Model& model() const { return *model_; }
  ParameterStore& store() { return *store_; }
  const ParameterStore& store() const { return *store_; }
  /// Null unless the purpose is to train.
  Optimizer* optimizer() { return optimizer_.get(); }
  /// Null unless scales come from earlier steps, and there are gradients: an engine that evaluates
  /// has no steps.
  DelayedScales* delayed_scales() { return delayed_scales_.get(); }
  /// The log of the step of this rank's routers; null without experts or training.
  RouterLog* router_log() { return router_log_.get(); }
  Device& device() { return device_; }
  const ResolvedRun& run() const { return run_; }
  const ParallelGroups& groups() const { return groups_; }
  /// The hooks that a walk over this engine's model must call for each segment.
  std::vector<SegmentHooks*> hooks() const {
    return gathers_ ? std::vector<SegmentHooks*>{gathers_.get()} : std::vector<SegmentHooks*>();
  }
  /// A context for this rank. `training` turns dropout on, `gradients` keeps what a backward needs.
  RankContext context(bool training, bool gradients);

  /// Sends what the saved policy offloads to `memory`, which must outlive the engine, instead of
  /// `second_memory`. ShapeError if the run also offloads weights or optimizer states: those are in
  /// `second_memory` already.
  void offload_to(SecondMemory& memory);
  /// The run's second memory, opened at the first call (on sim only its bytes are counted). Null if
  /// nothing is offloaded or `offload_to` was called. ConfigError if it cannot be opened.
  SlotMemory* second_memory();
  /// On a device that executes nothing: from now on, micro-batches that repeat others are left out.
  /// `log`, which must outlive the engine, lists them with their place in the device's record
  /// (engine/micro_batch_instances.h). Nothing is left out if tensors are offloaded or message
  /// shapes are sent ahead (variable_seq_lengths).
  void leave_out_repeats(ActionLog& log) { repeats_ = &log; }
  /// Quantized operands of the following steps are measured in `log`, which outlives them; null:
  /// they are not.
  void inspect(QuantizationLog* log) { quantization_log_ = log; }
  /// Random initial weights from the seed.
  void initialize();

  // A step: begin, micro-batches, finish.
  void begin_step(const StepInputs& inputs);
  /// Forward and backward of the rank's micro-batches 0 … count − 1 in the order of the pipeline
  /// schedule; `batch_at(i)` is called once for each, in ascending order. If routers have losses of
  /// their own, all calls are made before the first forward, unless `post_scored` came before: the
  /// weight of those losses depends on how many tokens of the whole step are scored.
  void run_micro_batches(int64_t count, FunctionRef<HostBatch(int64_t)> batch_at,
                         bool dropout = true);
  /// Starts the one host call of a step: sends `scored_weight` (as in `finish_step`) and `figures`
  /// to the hosts of the other ranks early, so that `finish_step` does not wait for them. `tokens`:
  /// how many this data-parallel rank's rows have; only routers with losses of their own need it.
  /// If the loss is a mean of means, call it after `run_micro_batches` has begun, which counts the
  /// micro-batches. If it is not called, `finish_step` makes the call.
  /// `has_rows` is false on a rank that could not read its rows and computed on others of the same
  /// shape (`blank_rows`): then all ranks abandon the step.
  void post_scored(double scored_weight, int64_t tokens = 0,
                   std::span<const HostFigure> figures = {}, bool has_rows = true);
  /// The `figures` of the last finished step, merged over all ranks.
  const std::vector<FigureOfRanks>& merged_figures() const { return merged_figures_; }
  /// Sums gradients over ranks and updates the weights, unless `update` is false (required if the
  /// engine was not built for training). `scored_weight`: the sum of the loss weights over this
  /// data-parallel rank's rows; the loss is a mean over their sum over all ranks. Where that is 0
  /// the update is skipped, as it is for gradients that are not finite. The result is the same on
  /// all ranks.
  StepResult finish_step(double scored_weight, bool update = true);
  /// Whether the step has begun to change weights, moments or scales. Until then they are those of
  /// before the step, wherever it fails.
  bool began_update() const { return began_update_; }

  const PhaseSeconds& phases() const { return phases_; }
  void reset_phases() { phases_ = {}; }

  /// Sum of the weighted token losses of all ranks' micro-batches 0 … count − 1, without gradients.
  /// They follow each other through the pipeline stages; `batch_at` as in `run_micro_batches`.
  double evaluate(int64_t count, FunctionRef<HostBatch(int64_t)> batch_at);

  /// Which of a micro-batch's tokens this rank holds.
  BatchPlace batch_place() const;
  /// Copies to the device the part of this data-parallel rank's rows that this rank computes on.
  Batch upload_part(const HostBatch& rows);
  /// A forward of one batch through all pipeline stages, without dropout, that keeps nothing for a
  /// backward. `instead_of_head`: see ModelStage; `watch`: see WatchLayers.
  void forward(const Batch& batch, StageSettings::HeadCall instead_of_head = {},
               WatchLayers::Function watch = {});
  /// The same of micro-batches 0 … count − 1, which follow each other through the pipeline stages;
  /// `batch_at` as in `run_micro_batches`. `instead_of_head` is called for them in ascending order.
  void forward_all(int64_t count, FunctionRef<HostBatch(int64_t)> batch_at,
                   StageSettings::HeadCall instead_of_head);

  /// After `finish_step`: the main gradient times this factor is the gradient of the mean loss.
  double gradient_factor() const { return gradient_factor_; }

 private:
  /// What the gradients of a step are divided by, its tokens, and the weight of those that are
  /// scored, over all data-parallel ranks.
  struct StepTotals {
    double divisor = 0, tokens = 0, scored = 0;
    bool abandoned = false;  // a rank has no rows
  };

  /// Writes StepScalar::router_loss_scale, so that routers' losses, which are sums over tokens,
  /// become means over all tokens of the step when gradients are divided. Returns the micro-batches
  /// that it read for that; none if it did not need to.
  std::vector<HostBatch> weigh_router_losses(int64_t count,
                                             FunctionRef<HostBatch(int64_t)> batch_at);
  /// Waits for what `post_scored` sent.
  void take_totals();
  ScheduleSettings schedule_of(int64_t micro_batches) const;
  /// What this rank does in a step of training.
  ActionList actions_of(int64_t micro_batches) const;
  /// Runs the forwards of micro-batches 0 … count − 1 through all stages.
  void run_forwards(int64_t count, const StageSettings& settings, ModelStage::BatchAt batch_at);
  /// `upload_part` over a batch of an earlier step; null: into new memory.
  Batch upload_over(const HostBatch& rows, const Batch* over);
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
  /// The loss sum over all ranks; does not reset it.
  double total_loss(std::string_view reason);
  /// Those of StepResult.
  std::vector<double> depth_losses();
  void write_scalar(StepScalar slot, double value);
  double read_scalar(StepScalar slot, std::string_view reason);

  Device& device_;
  const OpTable& ops_;
  const ResolvedRun& run_;
  ParallelGroups groups_;
  SecondMemory* second_memory_ = nullptr;    // of `offload_to`, not owned
  std::unique_ptr<SlotMemory> slot_memory_;  // of `second_memory`
  std::unique_ptr<Model> model_;
  std::unique_ptr<DelayedScales> delayed_scales_;
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<GatherSegments> gathers_;  // if weights are sharded
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<GradientNorm> gradient_norm_;
  std::unique_ptr<StepGraph> step_graph_;          // if steps are captured
  OffloadCounts graph_copies_;                     // of the program it has
  std::unique_ptr<LayerGraphHooks> layer_graphs_;  // if layers are
  LargeGradients large_gradients_;
  std::shared_ptr<RouterLog> router_log_;
  Tensor scalars_, loss_state_;
  Tensor depth_losses_;  // as RankContext::depth_losses; undefined without multi-token prediction
  Tensor host_scalars_;  // host copy of scalars_
  double loss_scale_ = 1, gradient_factor_ = 1;
  ActionLog* repeats_ = nullptr;      // not owned
  PendingFigures scored_;             // of this step, once posted
  std::optional<StepTotals> totals_;  // once they have arrived
  std::vector<FigureOfRanks> merged_figures_;
  int64_t update_ = 0;         // of this step
  int64_t micro_batches_ = 0;  // of this rank's step so far
  bool began_update_ = false;  // of this step
  PhaseSeconds phases_;
  QuantizationLog* quantization_log_ = nullptr;  // not owned
  MagnitudeFactors magnitude_factors_;           // of an engine that only evaluates
};

}  // namespace viaduct
