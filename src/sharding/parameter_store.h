#pragma once
// Where the weights and gradients of a rank live: flat buffers, one for each (chunk, grid, format).
// A buffer is cut into buckets, and each bucket into equal shards over the data-parallel ranks of
// an optimizer instance of its grid. A rank holds all weights and main gradients of its chunks, or
// only its shards of them (shard_weights, shard_gradients). It updates only its shards: it reduces
// gradients into them, keeps their masters, and gathers whole weights from them. A single rank's
// shard is the whole bucket. With share_state, the instances divide the update among them: a rank
// keeps masters for a part of its shard only.
// How weights become whole and gradients become sums is up to a WeightStore and a GradientStore;
// the forms and codes of weights, and the runs that are updated, are here.
// Implements WeightAccess and GradientAccess of `nn`.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "nn/access.h"
#include "precision/recipe.h"
#include "sharding/frozen_weights.h"
#include "sharding/gradient_store.h"
#include "sharding/parameter_entries.h"
#include "sharding/run_buckets.h"
#include "sharding/shard_run.h"
#include "sharding/sharded_weights.h"
#include "sharding/stored_codes.h"

namespace viaduct {

class ParameterStore final : public WeightAccess, public GradientAccess {
 public:
  /// `chunks`: for each model chunk of this rank, its parameters in order of first use in the
  /// forward; a parameter is listed once for each contribution of a backward to its gradient.
  /// One that several chunks use lives with the first of them.
  /// Nothing is initialized. `second_memory` receives what the settings offload and must outlive
  /// the store. ShapeError if `groups` shards what the settings do not, or if settings exclude each
  /// other.
  ParameterStore(Device& device, const PrecisionRecipe& recipe,
                 const std::vector<std::vector<ParameterUse>>& chunks,
                 const StoreSettings& settings, const ParallelGroups& groups,
                 SecondMemory* second_memory = nullptr);

  /// From now on `acquire` returns weights in the operand forms that the ops of `context` read;
  /// before, canonical ones. The ops must outlive the store. `packed`: also in forms that are only
  /// faster to read; ConfigError if there are none for the weights' format. `delayed`: the source
  /// of the scales of quantized weights, which must outlive the store; null: they are computed from
  /// the weights.
  void derive_weights(const OpContext& context, bool packed, DelayedScales* delayed = nullptr);
  /// Makes these forms of the current weights now instead of at their first use.
  void make_derived_weights();

  /// Every parameter once, in order of first use.
  const std::vector<const Parameter*>& parameters() const { return entries_.parameters(); }
  /// Those of frozen parameters (Parameter::trained): weights alone, whole on each rank or its
  /// part where weights are shards; their `master` is the weight. Without those that are stored in
  /// another format, which `write_stored` writes.
  const std::vector<ShardRun>& frozen_runs() const { return frozen_runs_; }
  /// Writes the `wanted` ones of these others, of values that `fill` gives (frozen_weights.h).
  /// Needs `derive_weights`.
  void write_stored(bool (*wanted)(const Parameter&), FunctionRef<void(const ShardRun&)> fill);
  /// Writes those that are stored in blocks, which `write_stored` leaves out. Needs the same.
  void write_blocks(FrozenWeights::ReadBlocks read);
  /// The runs of elements that this rank updates, chunk by chunk and buffer by buffer in the order
  /// of `parameters`; at most one run for each parameter. Tensors of a run that live in the second
  /// memory are undefined here: read them through `RunCursor`.
  const std::vector<ShardRun>& shard_runs() const { return runs_; }
  /// Groups of runs in the order in which the optimizer updates them, chunk by chunk.
  const std::vector<RunBucket>& run_buckets() const { return run_buckets_; }
  /// The tensors that live in the second memory; null if there are none.
  OffloadedBlocks* offloaded() const { return offloaded_.get(); }
  bool overlaps_offload() const { return settings_.overlap_offload; }
  /// This rank's run of a parameter; null if it updates none of it.
  const ShardRun* run_of(const Parameter& parameter) const;
  /// The ranks that hold copies of this rank's runs: one of each instance, or only this rank with
  /// share_state.
  Communicator& copies_of_runs() const {
    return settings_.share_state ? *no_copies_ : groups_.dp_cp_outer();
  }
  /// The ranks whose runs together cover each logical element of the model exactly once.
  Communicator& ranks_of_all_runs() const {
    return settings_.share_state ? groups_.world() : *groups_.of(GroupKind::statistics);
  }
  /// The index of a parameter's bucket in the order in which gradients are sent.
  size_t bucket_of(const Parameter& parameter) const { return entries_.at(parameter).bucket; }
  const std::vector<ParameterBuffer>& buffers() const { return entries_.buffers(); }

  /// The whole canonical weight, or its codes where the recipe stores codes. ShapeError if it is
  /// stale or not gathered, or if its memory has become that of gradients.
  Tensor weight(const Parameter& parameter) const { return weights_->weight(parameter); }
  /// Whether the 16-bit weight exists only from the first use after an update until products' forms
  /// of it are made (StagedWeights); `acquire` gives these forms.
  bool passes_gradients(const Parameter& parameter) const {
    return entries_.passes_gradients(parameter);
  }
  /// Whether each rank holds only shards of the main gradients, and of the weights.
  bool shards_gradients() const { return settings_.shard_gradients; }
  bool shards_weights() const { return sharded_weights_ != nullptr; }
  /// To plan the gathers of sharded weights; null where weights are whole.
  ShardedWeights* sharded_weights() const { return sharded_weights_; }

  /// The whole accumulated main gradient, in the format of main gradients. After
  /// `finish_gradients` only this rank's run of it is the sum over all ranks. Undefined if
  /// gradients are sharded, unless they are gathered.
  Tensor main_gradient(const Parameter& parameter) const;
  /// The whole master, in the parameter's shape. ShapeError unless this rank's run is the whole
  /// parameter, or while it is in the second memory.
  Tensor master(const Parameter& parameter) const;

  /// Writes the weights from masters that changed outside the optimizer (initialization, loading),
  /// and gathers them.
  void publish_masters(OpContext& context);
  /// Begins a new generation: weights change from here on, and acquiring one is an error until
  /// `weights_written`. ShapeError while a weight is acquired.
  void advance_generation();
  /// The number of model chunks on this rank, and the end of a chunk's runs in `shard_runs`; they
  /// begin at the end of the previous chunk's.
  size_t chunks() const { return entries_.chunks(); }
  size_t runs_end(size_t chunk) const { return runs_end_[chunk]; }
  /// States that the weights of the runs of all chunks up to this one are written. With
  /// gather_with_optimizer_step, their gathers start.
  void chunk_written(size_t chunk);
  /// States that the weights of all runs are written. Gathers them, or with overlap_param_gather
  /// leaves that to the next forward.
  void weights_written();
  /// Makes all weights whole, for readers that do not use `acquire`. Sharded weights stay gathered
  /// until `keep_gathered` or the next generation.
  void finish_gathers() { weights_->finish(); }

  /// States that the step's first forward in `chunk` begins. With align_param_gather, the gathers
  /// of this and the next chunk start here, at the same point of every stage's schedule.
  void begin_chunk(size_t chunk) { weights_->begin_chunk(chunk); }
  int64_t generation() const { return weights_->generation(); }

  /// Resets the gradients to zero.
  void begin_step(OpContext& context);
  /// States that a gradient of this step is complete after `backwards` contributions of each use,
  /// in any order. With overlap_grad_reduce, a bucket is sent as soon as all its gradients are
  /// complete. If this is not called, `finish_gradients` sends all.
  void expect_backwards(int64_t backwards);
  // A step's forward and backward as a program that is captured into a graph, which later does all
  // of it without the host (engine/step_graph.h).

  /// Before the program runs, or a graph in its place: the program then has all gathers and forms
  /// that belong to it, whatever was used since the update.
  void begin_program();
  /// At the end of the program: what it has begun is complete.
  void end_program();
  /// In place of the program a graph ran: what the host notes in the program is noted.
  void program_ran();
  /// With align_grad_reduce: the chunk's complete gradients are sent from here on.
  void reduce_chunk(size_t chunk) { gradients_->reduce_chunk(chunk); }
  /// With bucket_norms, after `finish_gradients`: the norm of each bucket of this rank's own
  /// gradients before the sum over ranks, in the order in which buckets are sent.
  std::vector<double> bucket_norms() { return gradients_->bucket_norms(); }
  /// Returns when the gradients of the runs are reduced over all contributing ranks. A parameter
  /// without contributions has a zero gradient. ShapeError if a contribution is unfinished.
  void finish_gradients(OpContext& context);
  /// The number that the gradients of the runs were divided by: with average_in_collective the data
  /// ranks of the attention grid (for parameters of the expert grid too), else 1.
  double gradient_divisor() const;
  /// For tests and dumps, after `finish_gradients`: makes every `main_gradient` whole.
  void gather_gradients() { gradients_->gather(); }

  Operand acquire(const Parameter& parameter, WeightUse use, int64_t run) override;
  void release(const Parameter& parameter, WeightUse use) override;
  Destination gradient(const Parameter& parameter) override;
  Destination product_gradient(const Parameter& parameter) override;
  void done(const Parameter& parameter) override;

 private:
  /// Writes the codes of the first `chunks` chunks that are not written in this generation.
  void write_codes(size_t chunks);
  /// The generation whose weight a parameter has.
  int64_t generation_of(const Parameter& parameter) const {
    return parameter.trained ? generation() : frozen_generation_;
  }
  /// Opens a contribution, which its kernel writes in FP32 or in `format`.
  Destination destination(const Parameter& parameter, DType format);
  /// Rescales means over the ranks of another grid to sums divided by `gradient_divisor`.
  void scale_means_of_other_grids(OpContext& context);

  // Runs, and masters and states of runs in the second memory (parameter_runs.cpp).
  void list_runs();
  void list_run_buckets();
  void make_masters_of_runs();
  /// Undoes `widen_run_gradients`: runs see the main gradients again.
  void narrow_run_gradients();
  /// Converts the runs' gradients to the format that kernels write, if the optimizer reads that.
  void widen_run_gradients(OpContext& context);

  Device& device_;
  StoreSettings settings_;
  ParallelGroups groups_;
  PrecisionRecipe recipe_;
  DType kernel_gradient_;                    // what kernels write
  std::shared_ptr<Communicator> no_copies_;  // with share_state: this rank alone
  std::unique_ptr<OffloadedBlocks> offloaded_;
  ParameterEntries entries_;
  std::vector<ShardRun> runs_, frozen_runs_;
  std::vector<size_t> runs_end_;  // by chunk
  std::vector<RunBucket> run_buckets_;
  std::vector<Tensor> run_gradients_;  // by run: views of the main gradients
  std::unique_ptr<GradientStore> gradients_;
  std::unique_ptr<WeightStore> weights_;
  ShardedWeights* sharded_weights_ = nullptr;  // `weights_`, if it is this
  std::optional<OpContext> context_;           // of the step
  std::optional<WeightForms> forms_;
  std::optional<FrozenWeights> frozen_;  // with derive_weights
  std::unique_ptr<StoredCodes> codes_;   // where weights are stored so
  size_t written_chunks_ = 0;            // of these weights, in this generation
  int64_t frozen_generation_ = 0;        // the one in which frozen weights were written last
  /// What the last program left to note.
  struct ProgramNotes {
    struct Gradient {
      int64_t contributions = 0;
      bool rounded = false;
    };
    std::vector<Gradient> gradients;  // of `parameters`
    std::vector<bool> forms;          // that it has made
  };
  ProgramNotes program_;
};

}  // namespace viaduct
