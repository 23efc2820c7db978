#include "nn/head.h"

#include <algorithm>

#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/gemm.h"
#include "ops/optimizer.h"
#include "ops/step_scalars.h"

namespace viaduct {
namespace {

constexpr int64_t kChunkBytes =
    32 << 20;  // FP32 logits of a chunk: fits the outer caches, large enough for full GEMM blocks

template <class F>
void for_each_chunk(int64_t tokens, int64_t chunk, F&& f) {
  for (int64_t begin = 0; begin < tokens; begin += chunk) f(begin, std::min(chunk, tokens - begin));
}

}  // namespace

HeadSegment::HeadSegment(HeadSpec spec, Norm norm, std::shared_ptr<const Parameter> weight)
    : spec_(spec), norm_(std::move(norm)), weight_(std::move(weight)) {}

int64_t HeadSegment::chunk_tokens() const {
  const int64_t fit = kChunkBytes / (4 * std::max<int64_t>(1, weight_->shape[0]));
  return std::clamp<int64_t>(fit / 128 * 128, 128, 4096);
}

Tensor HeadSegment::final_norm(RankContext& context, const Tensor& hidden) const {
  SavedStore nothing(false);
  return norm_.forward(context, hidden, nothing);
}

Tensor HeadSegment::logits(RankContext& context, const Tensor& normed, MemoryTag tag) const {
  const AcquiredWeight weight(context.weights, *weight_, WeightUse::forward);
  GemmArgs args;
  args.a = normed;
  args.b = weight.tensor();
  args.c = context.statistic({normed.dim(0), weight_->shape[0]}, tag);
  gemm(context.ops, args);
  return args.c;
}

TensorSet HeadSegment::forward(RankContext& context, const Batch& batch, const TensorSet& in,
                               SavedStore& saved) {
  const Tensor normed = norm_.forward(context, in.get(kHidden), saved);
  const Tensor lse = context.statistic({batch.tokens()});
  const Tensor loss = context.statistic({batch.tokens()}, MemoryTag::activations);
  for_each_chunk(batch.tokens(), chunk_tokens(), [&](int64_t begin, int64_t count) {
    const Tensor targets = batch.targets.slice(0, begin, count),
                 chunk_loss = loss.slice(0, begin, count);
    CrossEntropyForwardArgs args;
    args.logits = logits(context, normed.slice(0, begin, count), MemoryTag::workspace);
    args.targets = targets;
    args.lse = lse.slice(0, begin, count);
    args.target_logit = chunk_loss;
    args.columns = spec_.vocabulary;
    args.softcap = spec_.softcap;
    cross_entropy_forward(context.ops, args);
    scale(context.ops, {chunk_loss, chunk_loss, -1});
    add(context.ops, {args.lse, chunk_loss, chunk_loss});  // loss = lse − target logit
  });
  reproducible_sum(context.ops, {loss, batch.loss_weight, false, context.loss_state});
  saved.keep(this, "normed", normed);
  saved.keep(this, "lse", lse);
  return {};
}

TensorSet HeadSegment::backward_input(RankContext& context, const Batch& batch, const TensorSet&,
                                      SavedStore& saved) {
  const Tensor normed = saved.take(this, "normed"), lse = saved.take(this, "lse");
  const Tensor d_normed = context.activation(normed.shape(), MemoryTag::activations);
  const auto destination = context.gradients->gradient(*weight_);
  WriteMode mode = destination.mode;
  for_each_chunk(batch.tokens(), chunk_tokens(), [&](int64_t begin, int64_t count) {
    const Tensor rows = normed.slice(0, begin, count);
    CrossEntropyBackwardArgs args;
    args.logits = logits(context, rows, MemoryTag::workspace);
    args.targets = batch.targets.slice(0, begin, count);
    args.lse = lse.slice(0, begin, count);
    args.weight = batch.loss_weight.slice(0, begin, count);
    args.factor = step_scalar(context.scalars, StepScalar::loss_scale);
    args.columns = spec_.vocabulary;
    args.softcap = spec_.softcap;
    args.out = context.precision.activation == args.logits.dtype()
                   ? args.logits
                   : context.activation(args.logits.shape(), MemoryTag::workspace);
    cross_entropy_backward(context.ops, args);
    const AcquiredWeight weight(context.weights, *weight_, WeightUse::data_gradient);
    gemm(context.ops, {GemmForm::data_gradient, args.out, weight.tensor(),
                       d_normed.slice(0, begin, count), Tensor()});
    gemm(context.ops,
         {GemmForm::weight_gradient, args.out, rows, destination.tensor, Tensor(), mode});
    mode = WriteMode::accumulate;
  });
  context.gradients->done(*weight_);
  const Tensor d_in = context.activation(normed.shape(), MemoryTag::activations);
  norm_.backward(context, d_normed, Tensor(), d_in, saved);
  return TensorSet(kHidden, d_in);
}

std::vector<const Parameter*> HeadSegment::parameters() const {
  std::vector<const Parameter*> list;
  norm_.append_parameters(list);
  list.push_back(weight_.get());
  return list;
}

}  // namespace viaduct
