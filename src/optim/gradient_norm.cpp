#include "optim/gradient_norm.h"

#include "ops/elementwise.h"
#include "ops/optimizer.h"
#include "sharding/reproducible_all_reduce.h"

namespace viaduct {
GradientNorm::GradientNorm(OpContext& context, const ParameterStore& store, bool skip_not_finite,
                           std::shared_ptr<Communicator> statistics)
    : store_(store),
      skip_not_finite_(skip_not_finite),
      statistics_(std::move(statistics)),
      state_(context.allocate(DType::f64, {kReproducibleSumSize}, MemoryTag::other)) {}

void GradientNorm::compute(OpContext& context, const Tensor& scalars) {
  fill(context, {state_, 0});
  std::vector<Tensor> counted;
  for (const ShardRun& run : store_.shard_runs()) {
    for (const Range& range : counted_ranges(run))
      counted.push_back(run.gradient.slice(0, range.begin - run.range.begin, range.size()));
  }
  reproducible_sums(context, {std::move(counted), true, state_});
  reproducible_all_reduce(context, *statistics_, state_);
  gradient_norm(context, {state_, scalars, skip_not_finite_});
}

}  // namespace viaduct
