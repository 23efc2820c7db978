#include "optim/optimizer.h"

#include "ops/elementwise.h"
#include "ops/optimizer_state.h"

namespace viaduct {

size_t Optimizer::add_state(OpContext& context, std::string prefix, DType format, HasState has,
                            bool lifts_zeros) {
  OptimizerState state{std::move(prefix), {}, has, lifts_zeros};
  for (const ShardRun& run : store_.shard_runs()) {
    if (has != nullptr && !has(*run.parameter)) {
      state.runs.emplace_back();
      continue;
    }
    StateValues values(context.allocate(format, {run.range.size()}, MemoryTag::moments));
    if (has_state_scales(format)) {
      values.scales =
          context.allocate(DType::f32, {state_groups(run.range.size())}, MemoryTag::moments);
      store_state(context, {{}, values.values, values.scales, {}});
    } else {
      fill(context, {values.values, 0});
    }
    state.runs.push_back(std::move(values));
  }
  states_.push_back(std::move(state));
  return states_.size() - 1;
}

Tensor Optimizer::written_weight(size_t i) const {
  return run(i).weight.storage() != run(i).master.storage() ? run(i).weight : Tensor();
}

StepScalar Optimizer::learning_rate(size_t i, bool decoupled) const {
  if (decoupled && run(i).parameter->vocabulary) return StepScalar::decoupled_learning_rate;
  return StepScalar::learning_rate;
}

void Optimizer::step(OpContext& context, const Tensor& scalars) {
  store_.advance_generation();
  size_t begin = 0;
  for (size_t chunk = 0; chunk < store_.chunks(); ++chunk) {
    const size_t end = store_.runs_end(chunk);
    update_runs(context, scalars, {chunk, begin, end});
    store_.chunk_written(chunk);
    begin = end;
  }
  store_.weights_written();
}

}  // namespace viaduct
