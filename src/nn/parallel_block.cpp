#include "nn/parallel_block.h"

#include "ops/elementwise.h"

namespace viaduct {

TensorSet ParallelBlockSegment::forward(RankContext& context, const Batch& batch,
                                        const TensorSet& in, SavedStore& saved) {
  const Tensor x = in.get(kHidden);  // [stream tokens, H], as all below
  LinearInput normed = attention_.begin(context, x, saved);
  const Tensor shared = mlp_.has_input_norm() ? Tensor() : normed.x.tensor();
  // Not kept: no backward reads it.
  const Tensor sum =
      attention_.add_branch(context, batch, std::move(normed), x, saved, MemoryTag::activations);
  LinearInput raised = mlp_.has_input_norm() ? mlp_.begin(context, x, saved) : LinearInput(shared);
  return TensorSet(
      kHidden, mlp_.add_branch(context, batch, std::move(raised), sum, saved, saved.output_tag()));
}

TensorSet ParallelBlockSegment::backward_through(RankContext& context, const Batch& batch,
                                                 const TensorSet& d_out, SavedStore& saved,
                                                 bool both) {
  const Tensor d_sum = d_out.get(kHidden);  // [stream tokens, H], as all below
  const Tensor d_raised = mlp_.branch_gradient(context, batch, d_sum, saved);
  if (both) mlp_.backward_weight(context, batch, saved);
  // Of the stream by the residual path and, with two norms, by the feed-forward.
  const Tensor d_stream =
      mlp_.has_input_norm() ? mlp_.begin_gradient(context, d_raised, d_sum, saved) : d_sum;
  const Tensor d_normed = attention_.branch_gradient(context, batch, d_sum, saved, both);
  if (!mlp_.has_input_norm()) add(context.ops, {d_normed, d_raised, d_normed});
  TensorSet d_in(kHidden, attention_.begin_gradient(context, d_normed, d_stream, saved));
  if (both) attention_.backward_qkv_weight(context, saved);
  return d_in;
}

TensorSet ParallelBlockSegment::backward_input(RankContext& context, const Batch& batch,
                                               const TensorSet& d_out, SavedStore& saved) {
  return backward_through(context, batch, d_out, saved, false);
}

TensorSet ParallelBlockSegment::backward(RankContext& context, const Batch& batch,
                                         const TensorSet& d_out, SavedStore& saved) {
  return backward_through(context, batch, d_out, saved, true);
}

void ParallelBlockSegment::backward_weight(RankContext& context, const Batch& batch,
                                           SavedStore& saved) {
  mlp_.backward_weight(context, batch, saved);
  attention_.backward_weight(context, batch, saved);
}

std::vector<const Parameter*> ParallelBlockSegment::parameters() const {
  std::vector<const Parameter*> list = attention_.parameters();
  const std::vector<const Parameter*> further = mlp_.parameters();
  list.insert(list.end(), further.begin(), further.end());
  return list;
}

TensorSet ParallelAttentionSegment::forward(RankContext& context, const Batch& batch,
                                            const TensorSet& in, SavedStore& saved) {
  const Tensor x = in.get(kHidden);  // [stream tokens, H], as all below
  LinearInput normed = attention_.begin(context, x, saved);
  const Tensor read = shared_norm_ ? normed.x.tensor() : x;
  TensorSet out(kHidden, attention_.add_branch(context, batch, std::move(normed), x, saved,
                                               saved.output_tag()));
  out.set(kBranchInput, read);
  return out;
}

TensorSet ParallelAttentionSegment::backward_through(RankContext& context, const Batch& batch,
                                                     const TensorSet& d_out, SavedStore& saved,
                                                     bool both) {
  const Tensor d_sum = d_out.get(kHidden);        // [stream tokens, H], as all below
  const Tensor d_read = d_out.get(kBranchInput);  // by the experts
  const Tensor d_normed = attention_.branch_gradient(context, batch, d_sum, saved, both);
  Tensor d_stream = d_sum;
  if (shared_norm_) {
    add(context.ops, {d_normed, d_read, d_normed});
  } else {
    d_stream = context.stream(d_sum.shape(), MemoryTag::activations);
    add(context.ops, {d_sum, d_read, d_stream});
  }
  TensorSet d_in(kHidden, attention_.begin_gradient(context, d_normed, d_stream, saved));
  if (both) attention_.backward_qkv_weight(context, saved);
  return d_in;
}

TensorSet ParallelAttentionSegment::backward_input(RankContext& context, const Batch& batch,
                                                   const TensorSet& d_out, SavedStore& saved) {
  return backward_through(context, batch, d_out, saved, false);
}

TensorSet ParallelAttentionSegment::backward(RankContext& context, const Batch& batch,
                                             const TensorSet& d_out, SavedStore& saved) {
  return backward_through(context, batch, d_out, saved, true);
}

void ParallelAttentionSegment::backward_weight(RankContext& context, const Batch& batch,
                                               SavedStore& saved) {
  attention_.backward_weight(context, batch, saved);
}

}  // namespace viaduct
