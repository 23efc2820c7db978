#include "optim/gradient_norm.h"

#include "ops/elementwise.h"
#include "ops/optimizer.h"
#include "sharding/offloaded_blocks.h"
#include "sharding/reproducible_all_reduce.h"

namespace viaduct {

GradientNorm::GradientNorm(OpContext& context, const ParameterStore& store, bool skip_not_finite)
    : store_(store),
      skip_not_finite_(skip_not_finite),
      state_(context.allocate(DType::f64, {kReproducibleSumSize}, MemoryTag::other)) {}

void GradientNorm::compute(OpContext& context, const Tensor& scalars) {
  fill(context, {state_, 0});
  std::vector<Tensor> counted;
  BlockCursor cursor(store_.offloaded(), BlockCursor::Access::read);
  for (const ShardRun& run : store_.shard_runs()) {
    if (run.parameter->load_bias_rate) continue;  // load errors
    const Tensor gradient = cursor.at(run.gradient);
    for (const Range& range : counted_ranges(run))
      counted.push_back(gradient.slice(0, range.begin - run.range.begin, range.size()));
    if (gradient.storage() == run.gradient.storage()) continue;
    reproducible_sums(context, {std::move(counted), true, state_});  // while it is here
    counted.clear();
  }
  reproducible_sums(context, {std::move(counted), true, state_});
  reproducible_all_reduce(context, store_.ranks_of_all_runs(), state_);
  gradient_norm(context, {state_, scalars, skip_not_finite_});
}

}  // namespace viaduct
