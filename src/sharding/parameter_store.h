#pragma once
// Where the weights and gradients of a rank live: flat buffers, one for each (chunk, grid, format).
// A buffer is cut into buckets, and each bucket into equal shards over the data-parallel ranks of
// an optimizer instance of its grid. A rank holds all weights and main gradients of its chunks, or
// only its shards of them (shard_weights, shard_gradients). It updates only its shards: it reduces
// gradients into them, keeps their masters, and gathers whole weights from them. A single rank's
// shard is the whole bucket. With share_state, the instances divide the update among them: a rank
// keeps masters for a part of its shard only.
// Implements WeightAccess and GradientAccess of `nn`.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "nn/access.h"
#include "precision/recipe.h"
#include "sharding/by_path.h"
#include "sharding/frozen_weights.h"
#include "sharding/gradient_reduction.h"
#include "sharding/gradient_units.h"
#include "sharding/offloaded_blocks.h"
#include "sharding/parameter_buffer.h"
#include "sharding/parameter_use.h"
#include "sharding/run_buckets.h"
#include "sharding/shard_run.h"
#include "sharding/store_settings.h"
#include "sharding/stored_codes.h"
#include "sharding/weight_forms.h"
#include "sharding/weight_gather.h"
#include "sharding/weight_units.h"

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
  const std::vector<const Parameter*>& parameters() const { return parameters_; }
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
  size_t bucket_of(const Parameter& parameter) const { return entry(parameter).bucket; }
  const std::vector<ParameterBuffer>& buffers() const { return buffers_; }

  /// The whole canonical weight, or its codes where the recipe stores codes. ShapeError if it is
  /// stale or not gathered, or if its memory has become that of gradients.
  Tensor weight(const Parameter& parameter) const;
  /// Whether the 16-bit weight exists only from the first use after an update until products' forms
  /// of it are made, in the memory of its gradients; `acquire` gives these forms.
  bool passes_gradients(const Parameter& parameter) const {
    return recipe_.stores_codes && recipe_.products.scaling == Scaling::mx &&
           settings_.with_masters && parameter.quantized;
  }
  /// Whether each rank holds only shards of the main gradients, and of the weights.
  bool shards_gradients() const { return gradient_units_ != nullptr; }
  bool shards_weights() const { return weight_units_ != nullptr; }

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
  size_t chunks() const { return runs_end_.size(); }
  size_t runs_end(size_t chunk) const { return runs_end_[chunk]; }
  /// States that the weights of the runs of all chunks up to this one are written. With
  /// gather_with_optimizer_step, their gathers start.
  void chunk_written(size_t chunk);
  /// States that the weights of all runs are written. Gathers them, or with overlap_param_gather
  /// leaves that to the next forward.
  void weights_written();
  /// Makes all weights whole, for readers that do not use `acquire`. Sharded weights stay gathered
  /// until `keep_gathered` or the next generation.
  void finish_gathers();

  // For sharded weights: gathers planned by callers that know which weights are used next. A unit
  // is the bucket of a parameter (`bucket_of`). Acquiring a weight of a unit that is in no plan
  // waits for its gather, and the last release frees it.

  /// Add a unit to a plan, see WeightUnits; `plan_ahead` adds nothing without overlap_param_gather.
  void plan_now(GatherPlan& plan, size_t unit) const { weight_units_->plan_now(plan, unit); }
  bool plan_ahead(GatherPlan& plan, size_t unit) const;
  /// Starts the gathers of all units of the plan, and waits for those that are needed at once.
  void gather(const GatherPlan& plan);
  /// Frees every unit that is neither in use nor in the plan.
  void keep_gathered(const GatherPlan& plan);

  /// States that the step's first forward in `chunk` begins. With align_param_gather, the gathers
  /// of this and the next chunk start here, at the same point of every stage's schedule.
  void begin_chunk(size_t chunk);
  int64_t generation() const { return generation_; }

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
  void reduce_chunk(size_t chunk);
  /// With bucket_norms, after `finish_gradients`: the norm of each bucket of this rank's own
  /// gradients before the sum over ranks, in the order in which buckets are sent.
  std::vector<double> bucket_norms();
  /// Returns when the gradients of the runs are reduced over all contributing ranks. A parameter
  /// without contributions has a zero gradient. ShapeError if a contribution is unfinished.
  void finish_gradients(OpContext& context);
  /// The number that the gradients of the runs were divided by: with average_in_collective the data
  /// ranks of the attention grid (for parameters of the expert grid too), else 1.
  double gradient_divisor() const;
  /// For tests and dumps, after `finish_gradients`: makes every `main_gradient` whole.
  void gather_gradients();

  Operand acquire(const Parameter& parameter, WeightUse use, int64_t run) override;
  void release(const Parameter& parameter, WeightUse use) override;
  Destination gradient(const Parameter& parameter) override;
  Destination product_gradient(const Parameter& parameter) override;
  void done(const Parameter& parameter) override;

 private:
  /// A bucket of a buffer; listed in the order in which gradients are sent: last chunk first, and
  /// within a chunk the parameters that the forward uses last.
  struct BucketPlace {
    size_t buffer = 0, bucket = 0;
    size_t chunk = 0, first_use = 0;  // of its parameters, in the chunk
    std::vector<const Parameter*> parameters = {};
    int64_t incomplete = 0;       // how many of them still expect contributions
    bool planned = false;         // its gather is planned
    bool shard_gathered = false;  // over the instances (share_state)
  };
  struct Entry {
    Tensor weight, gradient;
    size_t buffer = 0, index = 0;  // in buffers_, and among the buffer's parameters
    size_t bucket = 0;             // in buckets_
    int layer = 0;                 // of its chunk (ParameterUse); -1: several layers use it
    int run = -1;                  // in runs_; -1: this rank updates none of it
    int uses = 0;                  // contributions of one backward
    int acquired = 0;
    int64_t contributions = 0, expected = -1;  // in this step; -1: not known
    int64_t in_unit = 0;   // contributions since the unit's gradients were allocated
    bool open = false;     // a contribution is being written
    Tensor contribution;   // while open: what is written, if main gradients are narrower
    Tensor accumulation;   // FP32 sum over micro-batches, if main gradients are narrower
    bool rounded = false;  // `accumulation` was rounded to `gradient` in this step
  };
  const Entry& entry(const Parameter& parameter) const;
  Entry& entry(const Parameter& parameter);
  /// Weights are gathered in the opposite order of gradients.
  size_t gather_place(size_t bucket) const { return buckets_.size() - 1 - bucket; }

  void check_settings() const;
  /// Whether the weight is stored as codes: where there are masters to write them from.
  bool stores_codes(const Parameter& parameter) const {
    return recipe_.stores_codes && can_store_codes(recipe_.products) && settings_.with_masters &&
           parameter.quantized;
  }
  /// Writes the codes of the first `chunks` chunks that are not written in this generation.
  void write_codes(size_t chunks);
  // Weights that pass through the memory of gradients (parameter_staging.cpp).
  /// Writes this generation's weights of the runs there, from masters, if that is not done. From
  /// here on the gradients of the last step are gone.
  void stage_weights();
  /// Makes the forms of a chunk's weights that are not made yet; the memory then belongs to the
  /// gradients again.
  void end_staging(size_t chunk);
  /// Whether all these forms of this generation are made.
  bool formed(size_t chunk) const { return staging_ && formed_generations_[chunk] == generation_; }
  /// The generation whose weight a parameter has.
  int64_t generation_of(const Parameter& parameter) const {
    return parameter.trained ? generation_ : frozen_generation_;
  }
  BufferFormats formats_of(const Parameter& parameter) const;
  /// The next one.
  void add_chunk(const std::vector<std::vector<ParameterUse>>& chunks);
  /// `layers`: for each parameter the only layer that uses it, or −1 if several do, of any chunk.
  void add_buffer(size_t chunk, std::vector<const Parameter*> parameters,
                  const std::vector<int>& layers);
  void list_buckets();
  void make_reduction();
  void make_gathers();

  // Sharded gradients and weights (parameter_units.cpp).
  void make_gradient_units(ReduceOp op);
  void make_weight_units();
  /// Elements of the units of the largest layer.
  int64_t largest_layer() const;
  void begin_unit_gradients(OpContext& context);
  void open_gradients(size_t unit);
  /// Makes the entries' gradients views of the unit's flat tensor `whole`, undefined if that is.
  void view_gradients(const BucketPlace& place, const Tensor& whole);
  /// Whether all parameters had the same number of backwards since the unit was allocated.
  bool unit_complete(const BucketPlace& place) const;
  void send_gradients(size_t unit);
  /// Sends the units that wait for contributions, which count as zero.
  void send_open_units(OpContext& context);
  Tensor weight_of_unit(const Parameter& parameter) const;
  void gather_all_units();
  bool in_use(const BucketPlace& place) const;
  void drop_weights(size_t unit);

  /// With share_state: gathers the shards of the first `chunks` chunks over the instances.
  void gather_shards(size_t chunks);
  /// Rescales means over the ranks of another grid to sums divided by `gradient_divisor`.
  void scale_means_of_other_grids(OpContext& context);
  // Masters and states of runs in the second memory (parameter_offload.cpp).
  void list_run_buckets();
  void make_masters_of_runs();

  void add_accumulations(Device& device);
  void add_bucket_norm(size_t bucket);
  /// What ops write to: `accumulation` if there is one, else `gradient`.
  static const Tensor& accumulated(const Entry& entry) {
    return entry.accumulation ? entry.accumulation : entry.gradient;
  }
  /// Opens a contribution, which its kernel writes in FP32 or in `format`.
  Destination destination(const Parameter& parameter, DType format);
  /// Rounds `accumulation` to the main gradient, once, before it is sent.
  void round_accumulation(OpContext& context, Entry& entry);
  void list_runs();
  /// Undoes `widen_run_gradients`: runs see the main gradients again.
  void narrow_run_gradients();
  /// Converts the runs' gradients to the format that kernels write, if the optimizer reads that.
  void widen_run_gradients(OpContext& context);
  /// The number of buckets of the first `chunks` chunks, which are gathered first.
  size_t buckets_of_first(size_t chunks) const;

  StoreSettings settings_;
  ParallelGroups groups_;
  std::shared_ptr<Communicator> no_copies_;  // with share_state: this rank alone
  std::vector<const Parameter*> parameters_;
  std::vector<ParameterBuffer> buffers_;  // chunk by chunk
  std::vector<BucketPlace> buckets_;
  std::vector<ShardRun> runs_, frozen_runs_;
  std::shared_ptr<Communicator> alone_;  // of frozen parameters
  std::vector<RunBucket> run_buckets_;
  std::unique_ptr<OffloadedBlocks> offloaded_;
  std::vector<Tensor> run_gradients_;  // by run: views of the main gradients
  PrecisionRecipe recipe_;
  DType kernel_gradient_;             // what kernels write
  std::optional<OpContext> context_;  // of the step
  std::vector<size_t> runs_end_;      // by chunk
  std::map<const Parameter*, Entry, ByPath> entries_;
  Device& device_;
  Tensor bucket_norms_;  // with bucket_norms: a reproducible sum of squares for each bucket
  // One of each pair is set: for whole gradients or sharded ones, whole weights or sharded ones.
  std::unique_ptr<GradientReduction> reduction_;
  std::unique_ptr<GradientUnits> gradient_units_;
  std::unique_ptr<WeightGather> gather_;
  std::unique_ptr<WeightUnits> weight_units_;
  std::optional<WeightForms> forms_;
  std::optional<FrozenWeights> frozen_;  // with derive_weights
  std::unique_ptr<StoredCodes> codes_;   // where weights are stored so
  size_t written_chunks_ = 0;            // of these weights, in this generation
  // Where weights pass through the memory of gradients:
  std::optional<OpContext> staging_;         // to write them and to make their forms
  int64_t staged_generation_ = -1;           // which is written there, or was
  std::vector<int64_t> formed_generations_;  // by chunk: whose forms are made and that is gone
  int64_t generation_ = 0;
  int64_t frozen_generation_ = 0;  // the one in which frozen weights were written last
  /// What the last program left to note.
  struct ProgramNotes {
    struct Gradient {
      int64_t contributions = 0;
      bool rounded = false;
    };
    std::vector<Gradient> gradients;  // of `parameters_`
    size_t sent = 0;                  // buckets
    std::vector<bool> summed;         // units of sharded gradients
    std::vector<bool> forms;          // that it has made
  };
  ProgramNotes program_;
};

}  // namespace viaduct
