#include "nn/head.h"

#include <algorithm>

#include "nn/product.h"
#include "nn/tensor_exchange.h"
#include "nn/weight_gradient.h"
#include "ops/bias.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/optimizer.h"
#include "ops/step_scalars.h"
#include "ops/table.h"

namespace viaduct {
namespace {

/// A log-sum-exp or a target logit of each token: FP64, for the loss of a confident token is their
/// small difference.
Tensor token_values(RankContext& context, int64_t tokens, MemoryTag tag) {
  return context.ops.allocate(DType::f64, {tokens}, tag);
}

template <class F>
void for_each_chunk(int64_t tokens, int64_t chunk, F&& f) {
  for (int64_t begin = 0; begin < tokens; begin += chunk) f(begin, std::min(chunk, tokens - begin));
}

}  // namespace

HeadSegment::HeadSegment(HeadSpec spec, Norm norm, std::shared_ptr<const Parameter> weight,
                         std::shared_ptr<const Parameter> bias)
    : spec_(spec), norm_(std::move(norm)), weight_(std::move(weight)), bias_(std::move(bias)) {}

int64_t HeadSegment::chunk_tokens(const OpContext& context) const {
  const int64_t row_bytes = 4 * std::max<int64_t>(1, weight_->shape[0]);
  const int64_t fit = context.ops.traits.head_chunk_bytes / row_bytes;
  return std::clamp<int64_t>(fit / 128 * 128, 128, 4096);
}

Tensor HeadSegment::final_norm(RankContext& context, const Tensor& hidden) const {
  SavedStore nothing(false);
  return gather_stream(context, norm_.forward(context, hidden, nothing));
}

HeadSegment::Way HeadSegment::way(const RankContext& context) const {
  if (!context.settings.fusions.cross_entropy) return Way::compose;
  return context.settings.recompute_logits ? Way::recompute : Way::keep_logits;
}

VocabularyColumns HeadSegment::columns(int64_t tensor_rank) const {
  const int64_t rows = weight_->shape[0], first = tensor_rank * rows;
  return {first, std::clamp<int64_t>(spec_.vocabulary - first, 0, rows)};
}

Tensor HeadSegment::logits(RankContext& context, const Tensor& normed) const {
  Communicator& tp = context.groups.tp();
  const Tensor here = logits_here(context, normed, MemoryTag::activations);
  if (here.dim(1) == spec_.vocabulary) return here;
  const Tensor ranks =
      context.statistic({tp.size(), here.dim(0), here.dim(1)}, MemoryTag::workspace);
  tp.all_gather(here, ranks).wait();
  const Tensor all = context.statistic({here.dim(0), spec_.vocabulary}, MemoryTag::activations);
  for (int rank = 0; rank < tp.size(); ++rank) {
    const auto [first, count] = columns(rank);
    if (count == 0) continue;
    copy(context.ops, {ranks.select(rank).slice(1, 0, count), all.slice(1, first, count)});
  }
  return all;
}

Tensor HeadSegment::logits_here(RankContext& context, const Tensor& normed, MemoryTag tag) const {
  const Tensor logits = context.statistic({normed.dim(0), weight_->shape[0]}, tag);
  make_logits(context, normed, logits);
  return logits;
}

void HeadSegment::make_logits(RankContext& context, const Tensor& normed,
                              const Tensor& logits) const {
  const AcquiredWeight weight(context.weights, *weight_, WeightUse::forward);
  // logits [T, V] = scale · (normed [T, H] · Wᵀ + b), W [V, H], b [V]
  run_product(context.ops, {GemmForm::forward, normed, weight.operand(), logits});
  if (bias_) {
    const AcquiredWeight bias(context.weights, *bias_, WeightUse::elementwise);
    bias_add(context.ops, {logits, bias.tensor(), logits});
  }
  if (spec_.scale != 1) scale(context.ops, {logits, logits, spec_.scale});
}

void HeadSegment::merge(RankContext& context, const Tensor& lse, const Tensor& target_logit) const {
  Communicator& tp = context.groups.tp();
  const Tensor largest = token_values(context, lse.dim(0), MemoryTag::workspace);
  copy(context.ops, {lse, largest});
  tp.all_reduce(largest, ReduceOp::max).wait();
  lse_share(context.ops, {lse, largest, lse});
  tp.all_reduce(lse, ReduceOp::sum).wait();
  lse_join(context.ops, {lse, largest, lse});
  tp.all_reduce(target_logit, ReduceOp::sum).wait();
}

void HeadSegment::fused_forward(RankContext& context, const Batch& batch, const Tensor& normed,
                                const Tensor& lse, const Tensor& target_logit,
                                SavedStore& saved) const {
  const auto [first_column, column_count] = columns(context.groups.tp().rank());
  const bool keeps = way(context) == Way::keep_logits;
  const int64_t width = weight_->shape[0];
  Tensor all;
  if (keeps && saved.keeps()) all = context.activation({batch.tokens(), width});
  const int64_t step = all ? batch.tokens() : chunk_tokens(context.ops);
  for_each_chunk(batch.tokens(), step, [&](int64_t begin, int64_t count) {
    CrossEntropyForwardArgs args;
    args.logits = all     ? all.slice(0, begin, count)
                  : keeps ? context.activation({count, width}, MemoryTag::workspace)
                          : context.statistic({count, width}, MemoryTag::workspace);
    make_logits(context, normed.slice(0, begin, count), args.logits);
    args.targets = batch.targets.slice(0, begin, count);
    args.lse = lse.slice(0, begin, count);
    args.target_logit = target_logit.slice(0, begin, count);
    args.first_column = first_column, args.columns = column_count;
    args.softcap = spec_.softcap;
    cross_entropy_forward(context.ops, args);
  });
  merge(context, lse, target_logit);
  saved.keep(this, "lse", lse);
  if (all) saved.keep(this, "logits", all);
}

TensorSet HeadSegment::forward(RankContext& context, const Batch& batch, const TensorSet& in,
                               SavedStore& saved) {
  const UnitScope scope(saved, "head");
  const Tensor stream = norm_.forward(context, in.get(kHidden), saved);
  const Tensor normed = gather_stream(context, stream);
  const Tensor lse = token_values(context, batch.tokens(), MemoryTag::saved);
  const Tensor loss = token_values(context, batch.tokens(), MemoryTag::activations);
  if (way(context) == Way::compose) {
    composed_cross_entropy_forward(context, batch, columns(context.groups.tp().rank()),
                                   spec_.softcap, logits_here(context, normed, saved.tag()), lse,
                                   loss, this, saved);
  } else {
    fused_forward(context, batch, normed, lse, loss, saved);
  }
  scale(context.ops, {loss, loss, -1});
  add(context.ops, {lse, loss, loss});  // loss = lse − target logit
  saved.once([&] {
    reproducible_sum(context.ops, {loss, batch.loss_weight, false, context.loss_state});
  });
  saved.keep(this, "normed", stream);
  return {};
}

void HeadSegment::logits_gradient(RankContext& context, const Batch& batch, int64_t begin,
                                  const Tensor& logits, const Tensor& lse,
                                  const Tensor& out) const {
  const int64_t count = logits.dim(0);
  const auto [first_column, column_count] = columns(context.groups.tp().rank());
  CrossEntropyBackwardArgs args;
  args.logits = logits;
  args.targets = batch.targets.slice(0, begin, count);
  args.lse = lse.slice(0, begin, count);
  args.weight = batch.loss_weight.slice(0, begin, count);
  args.factor = step_scalar(context.scalars, StepScalar::loss_scale);
  args.first_column = first_column, args.columns = column_count;
  args.softcap = spec_.softcap;
  args.out = out;
  cross_entropy_backward(context.ops, args);
  if (spec_.scale != 1) scale(context.ops, {out, out, spec_.scale});
}

Tensor HeadSegment::bias_gradient(RankContext& context) const {
  return trains_bias() ? context.gradients->gradient(*bias_).tensor : Tensor();
}

void HeadSegment::add_bias_gradient(RankContext& context, const Tensor& d_logits,
                                    const Tensor& d_bias) const {
  if (d_bias) column_sum(context.ops, {d_logits, d_bias, WriteMode::accumulate});
}

void HeadSegment::finish_bias_gradient(RankContext& context) const {
  if (trains_bias()) context.gradients->done(*bias_);
}

void HeadSegment::normed_gradient(RankContext& context, const Tensor& d_logits,
                                  const Tensor& d_normed) const {
  const AcquiredWeight weight(context.weights, *weight_, WeightUse::data_gradient);
  // d_normed [T, H] = d_logits [T, V] · W [V, H]
  run_product(context.ops, {GemmForm::data_gradient, d_logits, weight.operand(), d_normed});
}

TensorSet HeadSegment::stream_gradient(RankContext& context, const Tensor& d_normed,
                                       SavedStore& saved) const {
  const Tensor d_stream = reduce_to_stream(context, d_normed, MemoryTag::activations);
  const Tensor d_in = context.stream(d_stream.shape(), MemoryTag::activations);
  norm_.backward(context, d_stream, Tensor(), d_in, saved);
  return TensorSet(kHidden, d_in);
}

TensorSet HeadSegment::backward(RankContext& context, const Batch& batch, const TensorSet& d_out,
                                SavedStore& saved) {
  if (way(context) != Way::recompute) return Segment::backward(context, batch, d_out, saved);
  const Tensor normed = gather_stream(context, saved.take(this, "normed"));
  const Tensor lse = saved.take(this, "lse");
  const Tensor d_normed = context.activation(normed.shape(), MemoryTag::activations);
  GradientAccess::Destination destination;
  if (weight_->trained) destination = context.gradients->gradient(*weight_);
  const Tensor d_bias = bias_gradient(context);
  for_each_chunk(batch.tokens(), chunk_tokens(context.ops), [&](int64_t begin, int64_t count) {
    const Tensor rows = normed.slice(0, begin, count);
    const Tensor logits = logits_here(context, rows, MemoryTag::workspace);
    const Tensor d_logits = context.settings.precision.activation == logits.dtype()
                                ? logits
                                : context.activation(logits.shape(), MemoryTag::workspace);
    logits_gradient(context, batch, begin, logits, lse, d_logits);
    add_bias_gradient(context, d_logits, d_bias);
    normed_gradient(context, d_logits, d_normed.slice(0, begin, count));
    if (!weight_->trained) return;
    // dW [V, H] (= the first time, then +=) d_logitsᵀ · rows, both of `count` tokens
    make_weight_gradient(context, d_logits, rows, destination);
    destination.mode = WriteMode::accumulate;
  });
  if (weight_->trained) context.gradients->done(*weight_);
  finish_bias_gradient(context);
  return stream_gradient(context, d_normed, saved);
}

Tensor HeadSegment::fused_backward(RankContext& context, const Batch& batch, const Tensor& normed,
                                   const Tensor& d_normed, SavedStore& saved) const {
  const Tensor d_bias = bias_gradient(context);
  const bool kept = way(context) == Way::keep_logits;
  const Tensor lse = saved.take(this, "lse");
  const Tensor all =
      kept ? saved.take(this, "logits") : context.activation({batch.tokens(), weight_->shape[0]});
  for_each_chunk(batch.tokens(), kept ? batch.tokens() : chunk_tokens(context.ops),
                 [&](int64_t begin, int64_t count) {
                   const Tensor d_logits = all.slice(0, begin, count);
                   const Tensor logits = kept ? d_logits
                                              : logits_here(context, normed.slice(0, begin, count),
                                                            MemoryTag::workspace);
                   logits_gradient(context, batch, begin, logits, lse, d_logits);
                   add_bias_gradient(context, d_logits, d_bias);
                   normed_gradient(context, d_logits, d_normed.slice(0, begin, count));
                 });
  finish_bias_gradient(context);
  return all;
}

TensorSet HeadSegment::backward_input(RankContext& context, const Batch& batch, const TensorSet&,
                                      SavedStore& saved) {
  const Tensor stream = saved.take(this, "normed");
  const Tensor normed = gather_stream(context, stream);
  const Tensor d_normed = context.activation(normed.shape(), MemoryTag::activations);
  Tensor d_logits;
  if (way(context) == Way::compose) {
    d_logits = composed_cross_entropy_backward(context, batch, columns(context.groups.tp().rank()),
                                               spec_.softcap, this, saved);
    if (spec_.scale != 1) scale(context.ops, {d_logits, d_logits, spec_.scale});
    add_bias_gradient(context, d_logits, bias_gradient(context));
    finish_bias_gradient(context);
    normed_gradient(context, d_logits, d_normed);
  } else {
    d_logits = fused_backward(context, batch, normed, d_normed, saved);
  }
  if (weight_->trained) {
    saved.keep(this, "normed", stream);
    saved.keep(this, "d_logits", d_logits);
  }
  return stream_gradient(context, d_normed, saved);
}

void HeadSegment::backward_weight(RankContext& context, const Batch& batch, SavedStore& saved) {
  if (!weight_->trained) return;
  const Tensor normed = gather_stream(context, saved.take(this, "normed"));
  const Tensor d_logits = saved.take(this, "d_logits");
  // In the chunks of `backward`, for the same sums.
  const int64_t step = way(context) == Way::recompute ? chunk_tokens(context.ops) : batch.tokens();
  auto destination = step >= batch.tokens() ? context.gradients->product_gradient(*weight_)
                                            : context.gradients->gradient(*weight_);
  for_each_chunk(batch.tokens(), step, [&](int64_t begin, int64_t count) {
    // dW [V, H] (= the first time, then +=) d_logitsᵀ · normed, both of `count` tokens
    make_weight_gradient(context, d_logits.slice(0, begin, count), normed.slice(0, begin, count),
                         destination);
    destination.mode = WriteMode::accumulate;
  });
  context.gradients->done(*weight_);
}

std::vector<const Parameter*> HeadSegment::parameters() const {
  std::vector<const Parameter*> list;
  norm_.append_parameters(list);
  list.push_back(weight_.get());
  if (bias_) list.push_back(bias_.get());
  return list;
}

}  // namespace viaduct
