#include "sharding/weight_gather.h"

#include <algorithm>

namespace viaduct {

WeightGather::WeightGather(std::vector<Bucket> buckets, std::shared_ptr<Communicator> group)
    : buckets_(std::move(buckets)), states_(buckets_.size()), group_(std::move(group)) {}

WeightGather::~WeightGather() {
  try {
    for (State& state : states_) state.handle.wait();
  } catch (...) {  // a rank failed: it is said where the run ends
  }
}

void WeightGather::invalidate() {
  for (State& state : states_) {
    state.handle.wait();  // others may still read the own shard
    state.whole = false;
  }
  started_ = 0;
  stale_ = true;
}

void WeightGather::own_written(size_t count) {
  if (group_->size() > 1) start(count);
}

void WeightGather::own_written() {
  stale_ = false;
  if (group_->size() > 1) return;
  for (State& state : states_) state.whole = true;  // the own shard is all there is
  started_ = buckets_.size();
}

void WeightGather::require(size_t bucket) {
  State& state = states_[bucket];
  if (state.whole) return;
  start(bucket + 2);
  state.handle.wait();
  state.whole = true;
}

void WeightGather::finish() {
  start(buckets_.size());
  for (State& state : states_) {
    state.handle.wait();
    state.whole = true;
  }
}

void WeightGather::start(size_t count) {
  for (; started_ < std::min(count, buckets_.size()); ++started_)
    states_[started_].handle = group_->all_gather(buckets_[started_].own, buckets_[started_].whole);
}

}  // namespace viaduct
