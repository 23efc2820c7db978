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
  if (softcap > 0)
    map_rows(context.ops, {RowMap::soft_cap, logits, logits, columns.count, {}, softcap});
  const Tensor picked = context.statistic(lse.shape(), MemoryTag::workspace);
  reduce_rows(context.ops,
              {RowValue::pick, logits, picked, columns.count, {batch.targets, columns.first}});
  tp.all_reduce(picked, ReduceOp::sum).wait();
  copy(context.ops, {picked, target_logit});
  const Tensor largest = context.statistic(lse.shape(), MemoryTag::workspace);
  reduce_rows(context.ops, {RowValue::largest, logits, largest, columns.count});
  tp.all_reduce(largest, ReduceOp::max).wait();
  // In the place of the logits, which only a soft cap reads again.
  const Tensor probabilities = softcap > 0 ? context.statistic(logits.shape()) : logits;
  map_rows(context.ops, {RowMap::exponential, logits, probabilities, columns.count, largest});
  const Tensor sums = context.statistic(lse.shape(), MemoryTag::workspace);
  reduce_rows(context.ops, {RowValue::sum, probabilities, sums, columns.count});
  tp.all_reduce(sums, ReduceOp::sum).wait();
  const Tensor wide_largest = context.ops.allocate(DType::f64, lse.shape(), MemoryTag::workspace);
  copy(context.ops, {largest, wide_largest});
  copy(context.ops, {sums, lse});
  lse_join(context.ops, {lse, wide_largest, lse});
  map_rows(context.ops, {RowMap::divide, probabilities, probabilities, columns.count, sums});
  saved.keep(owner, "probabilities", probabilities);
  if (softcap > 0) saved.keep(owner, "capped", logits);
}

Tensor composed_cross_entropy_backward(RankContext& context, const Batch& batch,
                                       const VocabularyColumns& columns, double softcap,
                                       const void* owner, SavedStore& saved) {
  const Tensor d_logits = saved.take(owner, "probabilities");  // overwritten by the gradient
  MapRowsArgs loss{RowMap::loss_backward, d_logits, d_logits, columns.count};
  loss.targets = {batch.targets, columns.first};
  loss.weight = batch.loss_weight;
  loss.factor = step_scalar(context.scalars, StepScalar::loss_scale);
  map_rows(context.ops, loss);
  if (softcap > 0) {
    map_rows(context.ops, {RowMap::soft_cap_backward, d_logits, d_logits, columns.count,
                           saved.take(owner, "capped"), softcap});
  }
  if (context.settings.precision.activation == d_logits.dtype()) return d_logits;
  const Tensor narrow = context.activation(d_logits.shape());
  copy(context.ops, {d_logits, narrow});
  return narrow;
}

}  // namespace viaduct
