#include "sharding/whole_gradients.h"

#include <cmath>

#include "ops/elementwise.h"
#include "ops/optimizer.h"
#include "sharding/name_patterns.h"

namespace viaduct {
namespace {

std::vector<GradientReduction::Bucket> reduced_buckets(const ParameterEntries& entries) {
  std::vector<GradientReduction::Bucket> buckets;
  for (const ParameterBucket& bucket : entries.buckets()) {
    const ParameterBuffer& buffer = entries.buffer_of(bucket);
    buckets.push_back({buffer.bucket_gradients(bucket.bucket),
                       buffer.shard_gradients(bucket.bucket), buffer.own_gradients(bucket.bucket),
                       buffer.groups()});
  }
  return buckets;
}

}  // namespace

WholeGradients::WholeGradients(Device& device, ParameterEntries& entries,
                               const StoreSettings& settings, DType kernel_gradient)
    : entries_(entries),
      settings_(settings),
      kernel_gradient_(kernel_gradient),
      reduction_(reduced_buckets(entries),
                 settings.average_in_collective ? ReduceOp::average : ReduceOp::sum,
                 settings.reduce_by_exchange ? GradientReduction::Way::exchange
                                             : GradientReduction::Way::reduce_scatter),
      incomplete_(entries.buckets().size(), 0) {
  add_accumulations(device);
  if (!settings.bucket_norms || !settings.with_gradients) return;
  bucket_norms_ = device.allocate(
      DType::f64, {static_cast<int64_t>(entries.buckets().size()), kReproducibleSumSize},
      MemoryTag::other);
  reduction_.before_sending([this](size_t bucket) { add_bucket_norm(bucket); });
}

void WholeGradients::add_accumulations(Device& device) {
  for (const Parameter* parameter : entries_.parameters()) {
    ParameterEntry& e = entries_.at(*parameter);
    if (!e.gradient || e.gradient.dtype() == kernel_gradient_) continue;
    if (any_fits(settings_.fp32_accumulation, *parameter)) {
      e.accumulation =
          device.allocate(kernel_gradient_, parameter->shape, MemoryTag::main_gradients);
    }
  }
}

void WholeGradients::begin_step(OpContext& context) {
  context_.emplace(context);
  reduction_.begin_step(context);
  for (const Parameter* parameter : entries_.parameters()) {
    // Their ops only add; gradients of matrices are overwritten by their first contribution
    // instead.
    if (!parameter->weight_gradient && parameter->trained)
      fill(context, {entries_.at(*parameter).accumulated(), 0});
  }
}

void WholeGradients::expect() {
  for (size_t i = 0; i < incomplete_.size(); ++i)
    incomplete_[i] = static_cast<int64_t>(entries_.buckets()[i].parameters.size());
}

void WholeGradients::done(const Parameter& parameter) {
  ParameterEntry& e = entries_.at(parameter);
  if (e.contributions != e.expected) return;
  round_accumulation(*context_, e);
  const bool complete = --incomplete_[e.bucket] == 0;
  if (complete && !settings_.align_grad_reduce) reduction_.complete(e.bucket);
}

void WholeGradients::reduce_chunk(size_t chunk) {
  if (!settings_.align_grad_reduce) return;
  for (size_t i = 0; i < incomplete_.size(); ++i) {
    if (entries_.buckets()[i].chunk == chunk && incomplete_[i] == 0) reduction_.complete(i);
  }
}

void WholeGradients::finish(OpContext& context) {
  for (const Parameter* parameter : entries_.parameters()) {
    if (!parameter->trained) continue;
    ParameterEntry& e = entries_.at(*parameter);
    if (e.contributions == 0 && parameter->weight_gradient) fill(context, {e.accumulated(), 0});
    round_accumulation(context, e);
  }
  reduction_.finish();
}

void WholeGradients::round_accumulation(OpContext& context, ParameterEntry& e) {
  if (!e.accumulation || e.rounded) return;
  copy(context, {e.accumulation, e.gradient});
  e.rounded = true;
}

void WholeGradients::add_bucket_norm(size_t bucket) {
  const ParameterBucket& place = entries_.buckets()[bucket];
  Tensor gradients = entries_.buffer_of(place).bucket_gradients(place.bucket);
  if (gradients.dtype() != kernel_gradient_) {
    const Tensor wide =
        context_->allocate(kernel_gradient_, gradients.shape(), MemoryTag::workspace);
    copy(*context_, {gradients, wide});
    gradients = wide;
  }
  const Tensor state =
      bucket_norms_.slice(0, static_cast<int64_t>(bucket), 1).view({kReproducibleSumSize});
  fill(*context_, {state, 0});
  reproducible_sum(*context_, {gradients, Tensor(), true, state});
}

std::vector<double> WholeGradients::bucket_norms() {
  std::vector<double> norms;
  const Tensor value = context_->allocate(DType::f64, {1}, MemoryTag::workspace);
  for (size_t i = 0; i < incomplete_.size(); ++i) {
    if (!entries_.buckets()[i].parameters.front()->trained) continue;
    const Tensor state =
        bucket_norms_.slice(0, static_cast<int64_t>(i), 1).view({kReproducibleSumSize});
    sum_value(*context_, {state, value});
    norms.push_back(std::sqrt(host_read(context_->device, value, "norm of a gradient bucket", 0)));
  }
  return norms;
}

void WholeGradients::end_program() {
  reduction_.finish_sent();
  sent_in_program_ = reduction_.sent_count();
}

}  // namespace viaduct
