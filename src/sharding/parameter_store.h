#pragma once
// Where the weights and gradients of a rank live: flat buffers cut into buckets, each bucket cut
// into equal shards over the data-parallel ranks of an optimizer instance. A rank has all weights
// and main gradients of its chunks, and updates its shards alone: it sums gradients into them,
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
#include "sharding/parameter_buffer.h"
#include "sharding/shard_run.h"
#include "sharding/store_settings.h"
#include "sharding/weight_forms.h"
#include "sharding/weight_gather.h"

namespace viaduct {

class ParameterStore final : public WeightAccess, public GradientAccess {
 public:
  /// `chunks`: for each model chunk of this rank its parameters in order of first use in the
  /// forward, as often as the backward contributes to their gradients. Nothing is initialized.
  /// ShapeError if a parameter is in two chunks, or if `groups` shards what the settings do not.
  ParameterStore(Device& device, const PrecisionRecipe& recipe,
                 const std::vector<std::vector<const Parameter*>>& chunks,
                 const StoreSettings& settings, const ParallelGroups& groups);

  /// From here on products get their weights in the forms that the ops of `context` read, which
  /// outlive the store; until then, canonical ones. `packed`: also in those that they only read
  /// faster; ConfigError if there are none for the weights' format.
  void derive_weights(const OpContext& context, bool packed);
  /// Makes these forms of the weights that are there now, instead of at their first use.
  void make_derived_weights();

  /// Every parameter once, in order of first use.
  const std::vector<const Parameter*>& parameters() const { return parameters_; }
  /// What this rank updates, in the order of `parameters`, at most one run for each.
  const std::vector<ShardRun>& shard_runs() const { return runs_; }
  /// This rank's run of a parameter; null if it updates none of it.
  const ShardRun* run_of(const Parameter& parameter) const;
  /// The number of a parameter's bucket in the order in which gradients are sent.
  size_t bucket_of(const Parameter& parameter) const { return entry(parameter).bucket; }
  const std::vector<ParameterBuffer>& buffers() const { return buffers_; }

  /// The whole canonical weight. ShapeError if it is stale or not gathered.
  Tensor weight(const Parameter& parameter) const;
  /// The whole accumulated main gradient, in the format of main gradients; after
  /// `finish_gradients` the sum over all ranks in this rank's run alone.
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
  size_t chunks() const { return buffers_.size(); }
  size_t runs_end(size_t chunk) const { return runs_end_[chunk]; }
  /// The weights of the runs of all chunks up to this one are written; starts to gather them where
  /// gather_with_optimizer_step says so.
  void chunk_written(size_t chunk);
  /// The weights of the runs are written; gathers them, or leaves that to the acquires of the next
  /// forward (overlap_param_gather).
  void weights_written();
  /// All weights are whole, before somebody reads them in another way than by `acquire`.
  void finish_gathers();
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
  void gather_gradients() { reduction_->gather(); }

  Operand acquire(const Parameter& parameter, WeightUse use, int64_t run) override;
  void release(const Parameter& parameter, WeightUse use) override;
  Destination gradient(const Parameter& parameter) override;
  void done(const Parameter& parameter) override;

 private:
  /// A bucket of a buffer; listed in the order in which gradients are sent, last chunk first.
  struct BucketPlace {
    size_t buffer = 0, bucket = 0;
    int64_t parameters = 0;
    int64_t incomplete = 0;  // of them, those whose last contribution is to come
  };
  struct Entry {
    Tensor weight, gradient;
    size_t bucket = 0;  // in buckets_
    int run = -1;       // in runs_; -1: none of it here
    int uses = 0;       // contributions of one backward
    int acquired = 0;
    int64_t contributions = 0, expected = -1;  // in this step; -1: not known
    bool open = false;                         // being written now
    Tensor contribution;   // while open, what is written, where main gradients are narrower
    Tensor accumulation;   // where main gradients are narrower, and micro-batches add up in FP32
    bool rounded = false;  // `accumulation` to `gradient`, in this step
  };
  const Entry& entry(const Parameter& parameter) const;
  Entry& entry(const Parameter& parameter);
  /// Weights are gathered in the order opposite to that of gradients.
  size_t gather_place(size_t bucket) const { return buckets_.size() - 1 - bucket; }

  void add_chunk(Device& device, const BufferFormats& formats,
                 const std::vector<const Parameter*>& uses);
  void list_buckets();
  void add_accumulations(Device& device);
  void add_bucket_norm(size_t bucket);
  /// What ops write: `accumulation` where there is one, else `gradient`.
  static const Tensor& accumulated(const Entry& entry) {
    return entry.accumulation ? entry.accumulation : entry.gradient;
  }
  /// The main gradient of a parameter that adds up in FP32 is made, once, before it is sent.
  void round_accumulation(OpContext& context, Entry& entry);
  void list_runs(Device& device);
  /// Ends what `widen_run_gradients` began: runs see the main gradients.
  void narrow_run_gradients();
  /// The optimizer reads what kernels write, not the format of main gradients, unless it says so.
  void widen_run_gradients(OpContext& context);
  /// Buckets of the first `chunks` chunks: they are gathered first.
  size_t buckets_of_first(size_t chunks) const;

  StoreSettings settings_;
  ParallelGroups groups_;
  std::vector<const Parameter*> parameters_;
  // One a chunk: dense parameters of a recipe agree in format.
  std::vector<ParameterBuffer> buffers_;
  std::vector<BucketPlace> buckets_;
  std::vector<ShardRun> runs_;
  std::vector<Tensor> run_gradients_;  // of the runs, views of the main gradients
  DType format_;                       // of weights
  DType kernel_gradient_;              // what kernels write
  DType optimizer_gradient_;           // the narrowest that the optimizer reads
  int64_t shard_multiple_;
  std::optional<OpContext> context_;  // of the step
  std::vector<size_t> runs_end_;      // by chunk
  std::map<const Parameter*, Entry, ByPath> entries_;
  Device& device_;
  Tensor bucket_norms_;  // with bucket_norms: a reproducible sum of squares for each bucket
  std::unique_ptr<GradientReduction> reduction_;
  std::unique_ptr<WeightGather> gather_;
  std::optional<WeightForms> forms_;
  int64_t generation_ = 0;
};

}  // namespace viaduct
