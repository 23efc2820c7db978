#pragma once
// Where the weights and gradients of a rank live: flat buffers, one for each (chunk, grid, format),
// cut into buckets, each bucket cut into equal shards over the data-parallel ranks of an optimizer
// instance of its grid. A rank has all weights and main gradients of its chunks, or shards of them
// (shard_gradients, shard_weights), and updates its shards alone: it sums gradients into them,
// keeps masters for them, and gathers weights from them. One rank is one shard.
// Implements what `nn` asks for.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "nn/access.h"
#include "precision/recipe.h"
#include "sharding/by_path.h"
#include "sharding/gradient_reduction.h"
#include "sharding/gradient_units.h"
#include "sharding/parameter_buffer.h"
#include "sharding/parameter_use.h"
#include "sharding/shard_run.h"
#include "sharding/store_settings.h"
#include "sharding/weight_forms.h"
#include "sharding/weight_gather.h"
#include "sharding/weight_units.h"

namespace viaduct {

class ParameterStore final : public WeightAccess, public GradientAccess {
 public:
  /// `chunks`: for each model chunk of this rank its parameters in order of first use in the
  /// forward, as often as the backward contributes to their gradients. Nothing is initialized.
  /// ShapeError if a parameter is in two chunks, if `groups` shards what the settings do not, or if
  /// settings exclude each other.
  ParameterStore(Device& device, const PrecisionRecipe& recipe,
                 const std::vector<std::vector<ParameterUse>>& chunks,
                 const StoreSettings& settings, const ParallelGroups& groups);

  /// From here on products get their weights in the forms that the ops of `context` read, which
  /// outlive the store; until then, canonical ones. `packed`: also in those that they only read
  /// faster; ConfigError if there are none for the weights' format.
  void derive_weights(const OpContext& context, bool packed);
  /// Makes these forms of the weights that are there now, instead of at their first use.
  void make_derived_weights();

  /// Every parameter once, in order of first use.
  const std::vector<const Parameter*>& parameters() const { return parameters_; }
  /// What this rank updates, chunk by chunk and buffer by buffer in the order of `parameters`, at
  /// most one run for each.
  const std::vector<ShardRun>& shard_runs() const { return runs_; }
  /// This rank's run of a parameter; null if it updates none of it.
  const ShardRun* run_of(const Parameter& parameter) const;
  /// The number of a parameter's bucket in the order in which gradients are sent.
  size_t bucket_of(const Parameter& parameter) const { return entry(parameter).bucket; }
  const std::vector<ParameterBuffer>& buffers() const { return buffers_; }

  /// The whole canonical weight. ShapeError if it is stale or not gathered.
  Tensor weight(const Parameter& parameter) const;
  /// Whether each rank has shards of the main gradients alone, and of the weights.
  bool shards_gradients() const { return gradient_units_ != nullptr; }
  bool shards_weights() const { return weight_units_ != nullptr; }

  /// The whole accumulated main gradient, in the format of main gradients; after
  /// `finish_gradients` the sum over all ranks in this rank's run alone. Undefined where gradients
  /// are shards, unless they are gathered.
  Tensor main_gradient(const Parameter& parameter) const;
  /// The whole master, in the parameter's shape. ShapeError unless this rank's run is the whole
  /// parameter.
  Tensor master(const Parameter& parameter) const;

  /// The masters of the runs changed outside the optimizer (initialization, loading): weights are
  /// written anew from them, and gathered.
  void publish_masters(OpContext& context);
  /// Weights change from here on: a new generation. ShapeError while a weight is acquired. Until
  /// `weights_written`, acquiring one is an error.
  void advance_generation();
  /// Chunks of the model here, and the end of a chunk's runs in `shard_runs`: they begin where
  /// those of the chunk before end.
  size_t chunks() const { return runs_end_.size(); }
  size_t runs_end(size_t chunk) const { return runs_end_[chunk]; }
  /// The weights of the runs of all chunks up to this one are written; starts to gather them where
  /// gather_with_optimizer_step says so.
  void chunk_written(size_t chunk);
  /// The weights of the runs are written; gathers them, or leaves that to the acquires of the next
  /// forward (overlap_param_gather).
  void weights_written();
  /// All weights are whole, before somebody reads them in another way than by `acquire`. Where they
  /// are shards they stay so until `keep_gathered` or the next generation.
  void finish_gathers();

  // Where weights are shards, by those who know which are used next. A unit is the bucket of a
  // parameter (`bucket_of`). Whoever acquires a weight of a unit that is in no plan waits for its
  // gather, and it is given up with the last release.

  /// Adds to a plan, as WeightUnits; `plan_ahead` adds nothing without overlap_param_gather.
  void plan_now(GatherPlan& plan, size_t unit) const { weight_units_->plan_now(plan, unit); }
  bool plan_ahead(GatherPlan& plan, size_t unit) const;
  /// Starts the gathers of all units of the plan, and waits for those that are needed at once.
  void gather(const GatherPlan& plan);
  /// Gives up every unit that is in no use and not in the plan.
  void keep_gathered(const GatherPlan& plan);

  /// The first forward of the step in `chunk` begins. With align_param_gather the gathers of this
  /// and the next chunk start here, at the same point of every stage's schedule.
  void begin_chunk(size_t chunk);
  int64_t generation() const { return generation_; }

  /// Gradients of the step start from zero.
  void begin_step(OpContext& context);
  /// A gradient of this step is complete when each use has contributed so many times, in whatever
  /// order the schedule does that. With overlap_grad_reduce a bucket of complete ones is sent at
  /// once; unsaid, all are sent by `finish_gradients`.
  void expect_backwards(int64_t backwards);
  /// With align_grad_reduce: all that is complete of the chunk's gradients is sent from here on.
  void reduce_chunk(size_t chunk);
  /// With bucket_norms, after finish_gradients: the norm of each bucket of this rank's own
  /// gradients, before they were summed over ranks, in the order in which buckets are sent.
  std::vector<double> bucket_norms();
  /// Returns when the gradients of the runs are summed over all ranks that contribute. Parameters
  /// that nothing contributed to have a zero gradient. ShapeError if a contribution is open.
  void finish_gradients(OpContext& context);
  /// What the gradients of the runs were divided by (average_in_collective), else 1.
  double gradient_divisor() const;
  /// For tests and dumps, after finish_gradients: `main_gradient` becomes whole.
  void gather_gradients();

  Operand acquire(const Parameter& parameter, WeightUse use, int64_t run) override;
  void release(const Parameter& parameter, WeightUse use) override;
  Destination gradient(const Parameter& parameter) override;
  void done(const Parameter& parameter) override;

 private:
  /// A bucket of a buffer; listed in the order in which gradients are sent: last chunk first, and
  /// of a chunk what the forward uses last.
  struct BucketPlace {
    size_t buffer = 0, bucket = 0;
    size_t chunk = 0, first_use = 0;  // of its parameters, in the chunk
    std::vector<const Parameter*> parameters = {};
    int64_t incomplete = 0;  // of them, those whose last contribution is to come
    bool planned = false;    // in the plan of gathers
  };
  struct Entry {
    Tensor weight, gradient;
    size_t buffer = 0, index = 0;  // in buffers_, and among the buffer's parameters
    size_t bucket = 0;             // in buckets_
    int run = -1;                  // in runs_; -1: none of it here
    int uses = 0;                  // contributions of one backward
    int acquired = 0;
    int64_t contributions = 0, expected = -1;  // in this step; -1: not known
    int64_t in_unit = 0;   // of the contributions, those since the unit's gradients were made
    bool open = false;     // being written now
    Tensor contribution;   // while open, what is written, where main gradients are narrower
    Tensor accumulation;   // where main gradients are narrower, and micro-batches add up in FP32
    bool rounded = false;  // `accumulation` to `gradient`, in this step
  };
  const Entry& entry(const Parameter& parameter) const;
  Entry& entry(const Parameter& parameter);
  /// Weights are gathered in the order opposite to that of gradients.
  size_t gather_place(size_t bucket) const { return buckets_.size() - 1 - bucket; }

  void check_settings() const;
  BufferFormats formats_of(const Parameter& parameter) const;
  void add_chunk(const std::vector<ParameterUse>& uses);
  /// `layers`: of the parameters, the first that uses each; −1: several do.
  void add_buffer(size_t chunk, std::vector<const Parameter*> parameters,
                  const std::vector<int>& layers);
  void list_buckets();
  void make_reduction();
  void make_gathers();

  // Where gradients or weights are shards (parameter_units.cpp).
  void make_gradient_units(ReduceOp op);
  void make_weight_units();
  void begin_unit_gradients(OpContext& context);
  void open_gradients(size_t unit);
  /// The entries' gradients become views of the unit's flat ones; undefined: of nothing.
  void view_gradients(const BucketPlace& place, const Tensor& whole);
  /// Whether all parameters have had as many backwards since the unit's gradients were made.
  bool unit_complete(const BucketPlace& place) const;
  void send_gradients(size_t unit);
  void finish_units(OpContext& context);
  Tensor weight_of_unit(const Parameter& parameter) const;
  void gather_all_units();
  bool in_use(const BucketPlace& place) const;
  void drop_weights(size_t unit);

  void add_accumulations(Device& device);
  void add_bucket_norm(size_t bucket);
  /// What ops write: `accumulation` where there is one, else `gradient`.
  static const Tensor& accumulated(const Entry& entry) {
    return entry.accumulation ? entry.accumulation : entry.gradient;
  }
  /// The main gradient of a parameter that adds up in FP32 is made, once, before it is sent.
  void round_accumulation(OpContext& context, Entry& entry);
  void list_runs();
  /// Ends what `widen_run_gradients` began: runs see the main gradients.
  void narrow_run_gradients();
  /// The optimizer reads what kernels write, not the format of main gradients, unless it says so.
  void widen_run_gradients(OpContext& context);
  /// Buckets of the first `chunks` chunks: they are gathered first.
  size_t buckets_of_first(size_t chunks) const;

  StoreSettings settings_;
  ParallelGroups groups_;
  std::vector<const Parameter*> parameters_;
  std::vector<ParameterBuffer> buffers_;  // chunk by chunk
  std::vector<BucketPlace> buckets_;
  std::vector<ShardRun> runs_;
  std::vector<Tensor> run_gradients_;  // of the runs, views of the main gradients
  PrecisionRecipe recipe_;
  DType kernel_gradient_;             // what kernels write
  std::optional<OpContext> context_;  // of the step
  std::vector<size_t> runs_end_;      // by chunk
  std::map<const Parameter*, Entry, ByPath> entries_;
  Device& device_;
  Tensor bucket_norms_;  // with bucket_norms: a reproducible sum of squares for each bucket
  // Of each pair one: whole buffers, or shards.
  std::unique_ptr<GradientReduction> reduction_;
  std::unique_ptr<GradientUnits> gradient_units_;
  std::unique_ptr<WeightGather> gather_;
  std::unique_ptr<WeightUnits> weight_units_;
  std::optional<WeightForms> forms_;
  int64_t generation_ = 0;
};

}  // namespace viaduct
