#include "optim/adamw.h"

#include "base/error.h"
#include "ops/elementwise.h"
#include "ops/optimizer.h"

namespace viaduct {
AdamW::AdamW(OpContext& context, const PrecisionRecipe& recipe, ParameterStore& store,
             AdamWSettings settings)
    : store_(store), settings_(settings) {
  for (const ShardRun& run : store.shard_runs()) {
    const Shape shape{run.range.size()};
    Moments moments{context.allocate(recipe.moment, shape, MemoryTag::moments),
                    context.allocate(recipe.moment, shape, MemoryTag::moments)};
    fill(context, {moments.first, 0});
    fill(context, {moments.second, 0});
    moments_.push_back(std::move(moments));
  }
}

AdamW::Moments AdamW::whole(const Parameter& parameter) const {
  const auto& runs = store_.shard_runs();
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].parameter != &parameter) continue;
    VIADUCT_CHECK(ShapeError, runs[i].range.size() == parameter.shape.elements(),
                  "optimizer: this rank has elements {} to {} of the moments of {} {}",
                  runs[i].range.begin, runs[i].range.end, parameter.path,
                  to_string(parameter.shape));
    return {moments_[i].first.view(parameter.shape), moments_[i].second.view(parameter.shape)};
  }
  fail<ShapeError>("optimizer: {} is not among the parameters that this rank updates",
                   parameter.path);
}

AdamWArgs AdamW::update_of_run(const Tensor& scalars, size_t i) const {
  const ShardRun& run = store_.shard_runs()[i];
  AdamWArgs args;
  args.master = run.master;
  args.gradient = run.gradient;
  args.first = moments_[i].first;
  args.second = moments_[i].second;
  if (run.weight.storage() != run.master.storage()) args.weight = run.weight;
  args.scalars = scalars;
  args.beta1 = settings_.beta1, args.beta2 = settings_.beta2, args.epsilon = settings_.epsilon;
  args.weight_decay = run.parameter->decay ? settings_.weight_decay : 0;
  if (settings_.decoupled_rate && run.parameter->vocabulary)
    args.learning_rate = StepScalar::decoupled_learning_rate;
  return args;
}

void AdamW::step(OpContext& context, const Tensor& scalars) {
  store_.advance_generation();
  size_t run = 0;
  for (size_t chunk = 0; chunk < store_.chunks(); ++chunk) {
    AdamWListArgs updates;
    for (; run < store_.runs_end(chunk); ++run) updates.runs.push_back(update_of_run(scalars, run));
    adamw_list(context, updates);
    store_.chunk_written(chunk);
  }
  store_.weights_written();
}

}  // namespace viaduct
