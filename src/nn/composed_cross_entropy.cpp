#include "nn/composed_cross_entropy.h"

#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/softmax.h"
#include "ops/step_scalars.h"

namespace viaduct {

void composed_cross_entropy_forward(RankContext& context, const Batch& batch,
                                    const VocabularyColumns& columns, double softcap,
                                    const Tensor& logits, const Tensor& lse,
                                    const Tensor& target_logit, const void* owner,
                                    SavedStore& saved) {
  Communicator& tp = context.groups.tp();
  if (softcap > 0) soft_cap(context.ops, {logits, logits, softcap});
  const Tensor picked = context.statistic(lse.shape(), MemoryTag::workspace);
  row_pick(context.ops, {logits, batch.targets, picked, columns.count, columns.first});
  tp.all_reduce(picked, ReduceOp::sum).wait();
  copy(context.ops, {picked, target_logit});
  const Tensor largest = context.statistic(lse.shape(), MemoryTag::workspace);
  row_largest(context.ops, {logits, largest, columns.count});
  tp.all_reduce(largest, ReduceOp::max).wait();
  // In the place of the logits, which only a soft cap reads again.
  const Tensor probabilities = softcap > 0 ? context.statistic(logits.shape()) : logits;
  row_exponential(context.ops, {logits, largest, probabilities, columns.count});
  const Tensor sums = context.statistic(lse.shape(), MemoryTag::workspace);
  row_sum(context.ops, {probabilities, sums, columns.count});
  tp.all_reduce(sums, ReduceOp::sum).wait();
  const Tensor wide_largest = context.ops.allocate(DType::f64, lse.shape(), MemoryTag::workspace);
  copy(context.ops, {largest, wide_largest});
  copy(context.ops, {sums, lse});
  lse_join(context.ops, {lse, wide_largest, lse});
  row_divide(context.ops, {probabilities, sums, probabilities});
  saved.keep(owner, "probabilities", probabilities);
  if (softcap > 0) saved.keep(owner, "capped", logits);
}

Tensor composed_cross_entropy_backward(RankContext& context, const Batch& batch,
                                       const VocabularyColumns& columns, double softcap,
                                       const void* owner, SavedStore& saved) {
  const Tensor d_logits = saved.take(owner, "probabilities");  // overwritten by the gradient
  softmax_loss_backward(context.ops, {d_logits, batch.targets, batch.loss_weight,
                                      step_scalar(context.scalars, StepScalar::loss_scale),
                                      d_logits, columns.count, columns.first});
  if (softcap > 0) {
    soft_cap_backward(context.ops, {d_logits, saved.take(owner, "capped"), d_logits, softcap});
  }
  if (context.settings.precision.activation == d_logits.dtype()) return d_logits;
  const Tensor narrow = context.activation(d_logits.shape());
  copy(context.ops, {d_logits, narrow});
  return narrow;
}

}  // namespace viaduct
