#include "optim/adamw.h"

#include "base/error.h"
#include "ops/elementwise.h"
#include "ops/optimizer.h"
#include "sharding/reproducible_all_reduce.h"

namespace viaduct {
namespace {

/// The elements of a run that count in norms: of parts that this rank owns, neighbours joined.
std::vector<Range> counted_ranges(const ShardRun& run) {
  std::vector<Range> ranges;
  for (const Part& part : run.parameter->parts) {
    if (!part.owned) continue;
    const auto here = overlap(run.range, part_range(*run.parameter, part));
    if (!here) continue;
    if (!ranges.empty() && ranges.back().end == here->begin) {
      ranges.back().end = here->end;
    } else {
      ranges.push_back(*here);
    }
  }
  return ranges;
}

}  // namespace

AdamW::AdamW(OpContext& context, const PrecisionRecipe& recipe, ParameterStore& store,
             AdamWSettings settings, std::shared_ptr<Communicator> statistics)
    : store_(store), settings_(settings), statistics_(std::move(statistics)) {
  for (const ShardRun& run : store.shard_runs()) {
    const Shape shape{run.range.size()};
    Moments moments{context.allocate(recipe.moment, shape, MemoryTag::moments),
                    context.allocate(recipe.moment, shape, MemoryTag::moments)};
    fill(context, {moments.first, 0});
    fill(context, {moments.second, 0});
    moments_.push_back(std::move(moments));
  }
  norm_state_ = context.allocate(DType::f64, {kReproducibleSumSize}, MemoryTag::other);
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

void AdamW::compute_norm(OpContext& context, const Tensor& scalars) {
  fill(context, {norm_state_, 0});
  for (const ShardRun& run : store_.shard_runs()) {
    for (const Range& range : counted_ranges(run)) {
      const Tensor counted = run.gradient.slice(0, range.begin - run.range.begin, range.size());
      reproducible_sum(context, {counted, Tensor(), true, norm_state_});
    }
  }
  reproducible_all_reduce(context, *statistics_, norm_state_);
  gradient_norm(context, {norm_state_, scalars, settings_.skip_not_finite});
}

void AdamW::update_run(OpContext& context, const Tensor& scalars, size_t i) {
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
  adamw(context, args);
}

void AdamW::step(OpContext& context, const Tensor& scalars) {
  store_.advance_generation();
  size_t run = 0;
  for (size_t chunk = 0; chunk < store_.chunks(); ++chunk) {
    for (; run < store_.runs_end(chunk); ++run) update_run(context, scalars, run);
    store_.chunk_written(chunk);
  }
  store_.weights_written();
}

}  // namespace viaduct
