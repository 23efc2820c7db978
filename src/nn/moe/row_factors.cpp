#include "nn/moe/row_factors.h"

#include "ops/expert_rows.h"

namespace viaduct {

Tensor no_row_factors(RankContext& context, MemoryTag tag) {
  return context.statistic({0, 1}, tag);
}

Tensor weight_gradient(RankContext& context, const Tensor& d_factors, const Tensor& position,
                       const Tensor& weight, int64_t copies) {
  const Tensor d_weight = context.statistic(weight.shape(), MemoryTag::activations);
  combine_weights_backward(context.ops, {d_factors, position, weight, d_weight, copies});
  return d_weight;
}

}  // namespace viaduct
