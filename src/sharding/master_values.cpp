#include "sharding/master_values.h"

#include "ops/elementwise.h"
#include "ops/optimizer_state.h"

namespace viaduct {

Tensor master_place(OpContext& context, const ShardRun& run) {
  if (!run.master_state().coded()) return run.master;
  return context.allocate(DType::f32, {run.range.size()}, MemoryTag::workspace);
}

Tensor master_values(OpContext& context, const ShardRun& run) {
  const StateValues state = run.master_state();
  const Tensor values = master_place(context, run);
  if (state.coded()) expand_state(context, {state.values, state.scales, state.weights, values});
  return values;
}

void store_master(OpContext& context, const ShardRun& run, const Tensor& values) {
  const StateValues state = run.master_state();
  if (state.coded()) store_state(context, {values, state.values, state.scales, state.weights});
}

void round_master(OpContext& context, const ShardRun& run, DType master, const Tensor& weights) {
  const Tensor values = master_values(context, run);
  if (master != DType::i16) return copy(context, {values, weights});
  const Tensor remainders = context.allocate(DType::i16, {run.range.size()}, MemoryTag::workspace);
  store_state(context, {values, remainders, Tensor(), weights});
}

}  // namespace viaduct
