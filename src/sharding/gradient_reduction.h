#pragma once
// Sums the main gradients of buckets over data-parallel ranks. Each bucket is reduce-scattered
// inside an instance of the distributed optimizer, then the shard is all-reduced over instances, or
// reduce-scattered where they share its update. All ranks send the buckets in one order, whatever
// order they are filled in, so messages match. Alternatively shards are exchanged unsummed and
// summed here, in the order and precision of a reduce-scatter: sums have the same bits.

#include <functional>
#include <optional>
#include <vector>

#include "ops/dispatch.h"
#include "sharding/sharding_groups.h"

namespace viaduct {

class GradientReduction {
 public:
  struct Bucket {
    // Flat gradients: `shard` is this rank's part of `whole`, `own` the part of it that this rank
    // updates: all, or its share among the instances.
    Tensor whole, shard, own;
    ShardingGroups groups;
  };
  enum class Way { reduce_scatter, exchange };
  /// `buckets` in the order in which they are sent; one without gradients (of frozen parameters) is
  /// passed over. `op` is sum or average.
  GradientReduction(std::vector<Bucket> buckets, ReduceOp op, Way way);

  /// `look` is called with the number of each bucket directly before it is sent.
  void before_sending(std::function<void(size_t bucket)> look) {
    before_sending_ = std::move(look);
  }

  /// Nothing is sent yet. Sums of exchanged shards are computed in `context`, beside compute where
  /// the device has streams for it.
  void begin_step(OpContext& context);
  /// All gradients of the bucket are complete: it is sent as soon as all earlier buckets were sent.
  void complete(size_t bucket);
  /// Returns when what is sent has its sums; the other buckets come later.
  void finish_sent();
  /// How many buckets are sent, and that a graph has sent so many and finished their sums.
  size_t sent_count() const { return sent_; }
  void sent_by_graph(size_t count) { sent_ = sent_outer_ = count; }
  bool sent(size_t bucket) const { return bucket < sent_; }
  /// Sends the remaining buckets, and returns when the part that this rank updates holds its sums.
  void finish();

  /// For tests and dumps, after `finish`: every rank gets all sums in `whole`.
  void gather();

 private:
  void send_next();
  void send_outer();
  void sum_exchanged(size_t bucket);

  struct State {
    bool complete = false;
    Tensor exchanged;  // the ranks' gradients for this rank's shard, one after the other
    CommHandle inner, outer;
  };
  std::vector<Bucket> buckets_;
  std::vector<State> states_;
  ReduceOp op_;
  Way way_;
  std::function<void(size_t)> before_sending_;
  std::optional<OpContext> context_;  // its stream is that of the sums
  Event summed_;                      // the exchanged shards of the bucket before
  size_t sent_ = 0, sent_outer_ = 0;
};

}  // namespace viaduct
