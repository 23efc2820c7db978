#pragma once
// After an update the shard of each rank is written (where instances share the update, by several);
// gathers make the buckets whole again: all at once, or one by one while the next forward runs.

#include <vector>

#include "comm/communicator.h"

namespace viaduct {

class WeightGather {
 public:
  struct Bucket {
    Tensor whole, own;  // flat weights; `own` is this rank's part of `whole`
    std::shared_ptr<Communicator> group;
  };
  /// `buckets` in the order of first use in the forward, the order in which they are gathered on
  /// all ranks. Their weights count as stale until `own_written`.
  explicit WeightGather(std::vector<Bucket> buckets);
  /// Waits for gathers in progress: other ranks write into the weights.
  ~WeightGather();
  WeightGather(const WeightGather&) = delete;
  WeightGather& operator=(const WeightGather&) = delete;

  /// Own shards are about to change: gathered weights are stale.
  void invalidate();
  /// Own shards of the first `count` buckets are written: starts their gathers. Nothing can be
  /// required before all are.
  void own_written(size_t count);
  /// All own shards are written.
  void own_written();
  bool whole(size_t bucket) const { return states_[bucket].whole; }
  /// True between invalidate and own_written.
  bool stale() const { return stale_; }
  /// Waits for the bucket's gather, and starts that of the next one.
  void require(size_t bucket);
  /// Starts the gathers of the first `count` buckets that are not started yet.
  void start(size_t count);
  /// Gathers all buckets that are not gathered yet.
  void finish();
  /// Buckets are gathered once more, though none is stale: a graph that is captured from here on
  /// then has their gathers.
  void again();
  /// A graph has gathered all buckets.
  void gathered();

 private:
  struct State {
    bool whole = false;
    CommHandle handle;
  };
  std::vector<Bucket> buckets_;
  std::vector<State> states_;
  size_t started_ = 0;
  bool stale_ = true;
};

}  // namespace viaduct
