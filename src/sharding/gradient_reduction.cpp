#include "sharding/gradient_reduction.h"

#include "ops/elementwise.h"

namespace viaduct {
namespace {

/// Whether the instances each update a part of their common shard.
bool shares_update(const GradientReduction::Bucket& bucket) {
  return bucket.own.elements() != bucket.shard.elements();
}

}  // namespace

GradientReduction::GradientReduction(std::vector<Bucket> buckets, ReduceOp op, Way way)
    : buckets_(std::move(buckets)), states_(buckets_.size()), op_(op), way_(way) {}

void GradientReduction::begin_step(OpContext& context) {
  context_.emplace(context);
  context_->stream = context.device.stream("gradient sums");
  summed_ = {};
  for (size_t i = 0; i < states_.size(); ++i) states_[i].complete = !buckets_[i].whole;
  sent_ = sent_outer_ = 0;
}

void GradientReduction::complete(size_t bucket) {
  states_[bucket].complete = true;
  while (sent_ < buckets_.size() && states_[sent_].complete) send_next();
}

void GradientReduction::finish() {
  while (sent_ < buckets_.size()) send_next();
  finish_sent();
}

void GradientReduction::finish_sent() {
  while (sent_outer_ < sent_) send_outer();
  for (State& state : states_) state.outer.wait();
}

void GradientReduction::gather() {
  for (const Bucket& bucket : buckets_) {
    if (!bucket.whole) continue;
    if (shares_update(bucket)) bucket.groups.copies->all_gather(bucket.own, bucket.shard).wait();
    bucket.groups.shards->all_gather(bucket.shard, bucket.whole).wait();
  }
}

void GradientReduction::send_next() {
  // The previous bucket has had the time of this one's backward to complete. A fixed place, not
  // a test of readiness, keeps the order of events the same from run to run.
  if (sent_outer_ < sent_) send_outer();
  if (!buckets_[sent_].whole) {
    ++sent_;
    return;
  }
  if (before_sending_) before_sending_(sent_);
  const Bucket& bucket = buckets_[sent_];
  State& state = states_[sent_];
  Communicator& shards = *bucket.groups.shards;
  if (way_ == Way::exchange) {
    const std::vector<int64_t> rows(static_cast<size_t>(shards.size()), bucket.shard.elements());
    state.exchanged =
        context_->allocate(bucket.whole.dtype(), bucket.whole.shape(), MemoryTag::workspace);
    state.inner = shards.all_to_all(bucket.whole, state.exchanged, rows, rows);
  } else {
    state.inner = shards.reduce_scatter(bucket.whole, bucket.shard, op_);
  }
  ++sent_;
}

void GradientReduction::send_outer() {
  const Bucket& bucket = buckets_[sent_outer_];
  State& state = states_[sent_outer_];
  if (!bucket.whole) {
    ++sent_outer_;
    return;
  }
  if (shares_update(bucket)) {
    state.inner.wait();
    state.outer = bucket.groups.copies->reduce_scatter(bucket.shard, bucket.own, op_);
  } else {
    state.inner.wait(context_->stream);
    if (way_ == Way::exchange) sum_exchanged(sent_outer_);
    state.outer = bucket.groups.copies->all_reduce(bucket.shard, op_, context_->stream);
  }
  ++sent_outer_;
}

void GradientReduction::sum_exchanged(size_t bucket) {
  // Memory that earlier sums used may be freed: the shards of at most two buckets exist.
  context_->device.wait(kComputeStream, summed_);
  const Tensor& shard = buckets_[bucket].shard;
  Tensor& exchanged = states_[bucket].exchanged;
  const DType format = shard.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor sum = context_->allocate(format, shard.shape(), MemoryTag::workspace);
  const int ranks = buckets_[bucket].groups.shards->size();
  sum_rows(*context_, {exchanged.view({ranks, shard.elements()}), sum});
  if (op_ == ReduceOp::average) scale(*context_, {sum, sum, 1.0 / ranks});
  copy(*context_, {sum, shard});
  exchanged = Tensor();
  summed_ = context_->device.record_event(context_->stream);
}

}  // namespace viaduct
