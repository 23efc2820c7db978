#include "sharding/weight_gather.h"

#include <algorithm>

namespace viaduct {

WeightGather::WeightGather(std::vector<Bucket> buckets)
    : buckets_(std::move(buckets)), states_(buckets_.size()) {}

WeightGather::~WeightGather() {
  try {
    for (State& state : states_) state.handle.wait();
  } catch (...) {  // a rank failed: the error is reported where the run ends
  }
}

void WeightGather::invalidate() {
  for (State& state : states_) {
    state.handle.wait();  // others may still read this rank's shard
    state.whole = false;
  }
  started_ = 0;
  stale_ = true;
}

void WeightGather::own_written(size_t count) {
  start(count);
}

void WeightGather::own_written() {
  stale_ = false;
  for (size_t i = 0; i < buckets_.size(); ++i)
    if (buckets_[i].group->size() == 1) states_[i].whole = true;  // this rank's shard is everything
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

void WeightGather::again() {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    states_[i].handle.wait();
    states_[i].whole = buckets_[i].group->size() == 1;
  }
  started_ = 0;
}

void WeightGather::gathered() {
  for (State& state : states_) state.whole = true;
  started_ = buckets_.size();
}

void WeightGather::start(size_t count) {
  for (; started_ < std::min(count, buckets_.size()); ++started_) {
    const Bucket& bucket = buckets_[started_];
    if (bucket.group->size() == 1) continue;
    states_[started_].handle = bucket.group->all_gather(bucket.own, bucket.whole);
  }
}

}  // namespace viaduct
