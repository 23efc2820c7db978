#pragma once
// How a parameter store shards, reduces and gathers: the values of section `ddp` that it reads.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/parallel_groups.h"
#include "precision/recipe.h"
#include "sharding/ddp_config.h"

namespace viaduct {

struct StoreSettings {
  bool with_gradients = true;  // false: only weights (generation, evaluation, conversion)
  bool with_masters = true;    // for updates, where the recipe has separate masters
  /// Buckets are padded, and each rank of a group's `dp_cp_inner` keeps its shard of masters and
  /// moments. Without it `dp_cp_inner` has one rank: every data rank is an instance of its own.
  bool distributed_optimizer = true;
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
  /// The complete gradients of a chunk wait for `reduce_chunk`; otherwise each bucket is sent when
  /// it is complete. With overlap_grad_reduce.
  bool align_grad_reduce = false;
  /// A chunk's gathers start together, with the first forward of the chunk before it.
  bool align_param_gather = false;
  /// A chunk's gathers start when its weights are updated, beside the update of the next chunks;
  /// each chunk is one bucket.
  bool gather_with_optimizer_step = false;
  /// Buckets are the units of layers (ParameterUse::layer), and gradients are whole only for the
  /// units in progress: each backward of a micro-batch is reduce-scattered into shards. Needs the
  /// distributed optimizer; without exchange, bucket norms and fp32_accumulation. No effect where
  /// an instance has one rank.
  bool shard_gradients = false;
  /// Weights are whole only for the units in use and those gathered ahead. Needs shard_gradients.
  bool shard_weights = false;
  /// With overlap_param_gather: units of this many elements in total are gathered ahead of their
  /// use. None: those of the largest layer, so that the next layer always is, and at least
  /// 40 000 000.
  std::optional<int64_t> gather_ahead_elements;
  /// Units of equal size are gathered into two buffers, at most one unit ahead.
  bool double_buffer = false;
  /// Instances share masters and moments: each updates a part of the shard that it has in common
  /// with the others. Needs the distributed optimizer.
  bool share_state = false;
  int64_t bucket_elements = 40'000'000;
  int num_buckets = 0;  // > 0: the number of buckets, instead of their size
  bool pad_for_bus_bandwidth = false;
  bool average_in_collective = false;
  /// False: main gradients and the wire are in the weights' format where that is narrower.
  bool fp32_gradients = true;
  /// The format on the wire, with shard_gradients; none: as main gradients.
  std::optional<bool> fp32_messages;
  /// With narrow main gradients: parameters that still add up the micro-batches in FP32
  /// (name_patterns.h).
  std::vector<std::string> fp32_accumulation;
  /// Shards are reduced by an all-to-all and a local sum. Needs the distributed optimizer and one
  /// instance.
  bool reduce_by_exchange = false;
  /// The norm of each bucket of this rank's gradients is computed before it is sent.
  bool bucket_norms = false;

  // With a second memory:

  /// Masters and optimizer states of runs with this part of the rank's elements live there.
  double offload_fraction = 0;
  /// They are updated in buckets of at most this many elements (run_buckets.h).
  int64_t offload_bucket_elements = int64_t{1} << 22;
  /// The next bucket is fetched during the update of one.
  bool overlap_offload = false;
  /// This rank's shards of weights and main gradients also live there: a unit's weights are fetched
  /// before their gather. Needs shard_weights.
  bool offload_shards = false;

  bool operator==(const StoreSettings&) const = default;
};

/// Of a resolved configuration.
StoreSettings store_settings(const DdpConfig& config);

/// What of them has an effect on these ranks, on a rank with `chunks` chunks of the model.
/// ShapeError if `groups` shards what the settings do not, or if settings exclude each other.
StoreSettings settings_in_effect(StoreSettings settings, const PrecisionRecipe& recipe,
                                 const ParallelGroups& groups, size_t chunks,
                                 bool has_second_memory);

}  // namespace viaduct
