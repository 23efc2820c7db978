#include "sharding/gradient_reduction.h"

namespace viaduct {

GradientReduction::GradientReduction(std::vector<Bucket> buckets, const ParallelGroups& groups,
                                     ReduceOp op)
    : buckets_(std::move(buckets)),
      states_(buckets_.size()),
      inner_(groups.dp_cp_inner),
      outer_(groups.dp_cp_outer),
      op_(op) {}

void GradientReduction::begin_step() {
  for (State& state : states_) state.complete = false;
  sent_ = sent_outer_ = 0;
}

void GradientReduction::complete(size_t bucket) {
  states_[bucket].complete = true;
  while (sent_ < buckets_.size() && states_[sent_].complete) send_next();
}

void GradientReduction::finish() {
  while (sent_ < buckets_.size()) send_next();
  while (sent_outer_ < sent_) send_outer();
  for (State& state : states_) state.outer.wait();
}

void GradientReduction::gather() {
  for (const Bucket& bucket : buckets_) inner_->all_gather(bucket.own, bucket.whole).wait();
}

void GradientReduction::send_next() {
  // The bucket before has had the time of this one's backward to come through. A fixed place, not
  // a test of readiness, keeps the order of events the same from run to run.
  if (sent_outer_ < sent_) send_outer();
  const Bucket& bucket = buckets_[sent_];
  states_[sent_].inner = inner_->reduce_scatter(bucket.whole, bucket.own, op_);
  ++sent_;
}

void GradientReduction::send_outer() {
  State& state = states_[sent_outer_];
  state.inner.wait();
  state.outer = outer_->all_reduce(buckets_[sent_outer_].own, op_);
  ++sent_outer_;
}

}  // namespace viaduct
