#include "sharding/parameter_store.h"

#include <algorithm>

#include "base/error.h"
#include "ops/elementwise.h"
#include "sharding/master_values.h"
#include "sharding/replica_gradients.h"
#include "sharding/run_cursor.h"
#include "sharding/sharded_gradients.h"
#include "sharding/staged_weights.h"
#include "sharding/whole_gradients.h"

namespace viaduct {

ParameterStore::ParameterStore(Device& device, const PrecisionRecipe& recipe,
                               const std::vector<std::vector<ParameterUse>>& chunks,
                               const StoreSettings& settings, const ParallelGroups& groups,
                               SecondMemory* second_memory)
    : device_(device),
      settings_(
          settings_in_effect(settings, recipe, groups, chunks.size(), second_memory != nullptr)),
      groups_(groups),
      recipe_(recipe),
      kernel_gradient_(recipe.main_gradient),
      no_copies_(settings_.share_state ? make_self_communicator("copies of runs") : nullptr),
      offloaded_(second_memory != nullptr
                     ? std::make_unique<OffloadedBlocks>(device, *second_memory)
                     : nullptr),
      entries_(device, recipe, chunks, settings_, groups, offloaded()) {
  list_runs();
  list_run_buckets();
  make_masters_of_runs();
  if (settings_.shard_gradients)
    gradients_ = std::make_unique<ShardedGradients>(entries_, settings_, offloaded());
  else
    gradients_ = std::make_unique<WholeGradients>(device, entries_, settings_, kernel_gradient_);
  const auto passes = [&](const Parameter* parameter) { return passes_gradients(*parameter); };
  if (settings_.shard_weights) {
    auto sharded = std::make_unique<ShardedWeights>(device, entries_, settings_, offloaded());
    sharded_weights_ = sharded.get();
    weights_ = std::move(sharded);
  } else if (std::ranges::any_of(parameters(), passes)) {
    weights_ =
        std::make_unique<StagedWeights>(entries_, settings_, offloaded(), runs_, recipe.master);
  } else {
    weights_ = std::make_unique<WholeWeights>(entries_, settings_, offloaded());
  }
}

const ShardRun* ParameterStore::run_of(const Parameter& parameter) const {
  const int run = entries_.at(parameter).run;
  return run < 0 ? nullptr : &runs_[static_cast<size_t>(run)];
}

Tensor ParameterStore::main_gradient(const Parameter& parameter) const {
  return entries_.at(parameter).gradient;
}

Tensor ParameterStore::master(const Parameter& parameter) const {
  const ShardRun* run = run_of(parameter);
  const Range held = run == nullptr ? Range{} : run->range;
  VIADUCT_CHECK(ShapeError, held.size() == parameter.shape.elements(),
                "parameter store: this rank has elements {} to {} of the master of {} {}",
                held.begin, held.end, parameter.path, to_string(parameter.shape));
  return (offloaded_ ? offloaded_->present(run->master) : run->master).view(parameter.shape);
}

void ParameterStore::publish_masters(OpContext& context) {
  advance_generation();
  frozen_generation_ = generation();
  RunCursor cursor(offloaded(), RunCursor::Access::read, RunCursor::Access::change);
  for (const ShardRun& run : runs_) {
    if (run.master.storage() == run.weight.storage() || run.master.dtype() == DType::i16 ||
        run.store_writes_weight)
      continue;
    const ShardRun here = cursor.at(run);
    copy(context, {master_values(context, here), here.weight});
  }
  cursor.finish();
  weights_written();
  if (!shards_weights()) finish_gathers();
}

void ParameterStore::advance_generation() {
  for (const ParameterEntry& e : entries_.all()) {
    VIADUCT_CHECK(ShapeError, e.acquired == 0, "parameter store: {} is in use while weights change",
                  e.parameter->path);
  }
  weights_->begin_generation();
  written_chunks_ = 0;
}

void ParameterStore::chunk_written(size_t chunk) {
  if (!settings_.gather_with_optimizer_step) return;
  write_codes(chunk + 1);
  weights_->chunks_written(chunk + 1);
}

void ParameterStore::weights_written() {
  write_codes(chunks());
  weights_->written();
}

void ParameterStore::begin_step(OpContext& context) {
  context_.emplace(context);
  weights_->begin_step();
  gradients_->begin_step(context);
  narrow_run_gradients();
  for (const Parameter* parameter : parameters()) {
    ParameterEntry& e = entries_.at(*parameter);
    e.contributions = 0;
    e.expected = -1;
    e.rounded = false;
  }
}

void ParameterStore::expect_backwards(int64_t backwards) {
  if (!settings_.overlap_grad_reduce) return;
  for (ParameterEntry& e : entries_.all()) e.expected = e.uses * backwards;
  gradients_->expect();
}

void ParameterStore::finish_gradients(OpContext& context) {
  for (size_t chunk = 0; chunk < chunks(); ++chunk) weights_->before_gradients(chunk);
  for (const Parameter* parameter : parameters()) {
    VIADUCT_CHECK(ShapeError, !entries_.at(*parameter).open,
                  "parameter store: a gradient of {} is not done", parameter->path);
  }
  gradients_->finish(context);
  scale_means_of_other_grids(context);
  sum_replica_gradients(context, parameters(), runs_, groups_, offloaded());
  widen_run_gradients(context);
}

double ParameterStore::gradient_divisor() const {
  return settings_.average_in_collective ? groups_.dp_cp().size() : 1;
}

void ParameterStore::scale_means_of_other_grids(OpContext& context) {
  if (!settings_.average_in_collective) return;
  for (const ShardRun& run : runs_) {
    const int ranks = buffers()[entries_.at(*run.parameter).buffer].groups().ranks->size();
    if (ranks == groups_.dp_cp().size()) continue;
    scale(context, {run.gradient, run.gradient, ranks / gradient_divisor()});
  }
}

Operand ParameterStore::acquire(const Parameter& parameter, WeightUse use, int64_t run) {
  ParameterEntry& e = entries_.at(parameter);
  weights_->require(parameter);
  // A weight that passes through the memory of gradients has forms alone.
  const Tensor canonical = passes_gradients(parameter) ? Tensor() : weight(parameter);
  Operand found =
      parameter.stored && frozen_ ? frozen_->matrix(parameter, canonical, recipe_.weight)
      : entries_.stores_codes(parameter) && codes_ ? codes_->operand(parameter, canonical)
      : forms_ ? forms_->form(parameter, e.place, use, run, canonical, generation_of(parameter))
               : Operand(canonical);
  ++e.acquired;
  return found;
}

void ParameterStore::release(const Parameter& parameter, WeightUse) {
  if (--entries_.at(parameter).acquired == 0) weights_->released(parameter);
}

GradientAccess::Destination ParameterStore::gradient(const Parameter& parameter) {
  return destination(parameter, kernel_gradient_);
}

GradientAccess::Destination ParameterStore::product_gradient(const Parameter& parameter) {
  return destination(parameter, recipe_.activation);
}

GradientAccess::Destination ParameterStore::destination(const Parameter& parameter, DType format) {
  ParameterEntry& e = entries_.at(parameter);
  weights_->before_gradients(entries_.buckets()[e.bucket].chunk);
  if (parameter.trained) gradients_->open(parameter);
  VIADUCT_CHECK(ShapeError, e.gradient.defined(), "parameter store: {} has no gradient here",
                parameter.path);
  VIADUCT_CHECK(ShapeError, e.expected < 0 || e.contributions < e.expected,
                "parameter store: {} gets a gradient after its last one was announced",
                parameter.path);
  e.open = true;
  const bool overwrite = gradients_->held(e) == 0 && parameter.weight_gradient;
  const Tensor& target = e.accumulated();
  if (target.dtype() == kernel_gradient_ || (target.dtype() == format && parameter.weight_gradient))
    return {target, overwrite ? WriteMode::assign : WriteMode::accumulate};
  VIADUCT_CHECK(ShapeError, context_.has_value(),
                "parameter store: a gradient of {} before the first step began", parameter.path);
  e.contribution = context_->allocate(kernel_gradient_, parameter.shape, MemoryTag::workspace);
  if (parameter.weight_gradient) return {e.contribution, WriteMode::assign};
  fill(*context_, {e.contribution, 0});
  return {e.contribution, WriteMode::accumulate};
}

void ParameterStore::done(const Parameter& parameter) {
  ParameterEntry& e = entries_.at(parameter);
  VIADUCT_CHECK(ShapeError, e.open, "parameter store: done({}) without gradient()", parameter.path);
  e.open = false;
  if (e.contribution) {
    const bool first = gradients_->held(e) == 0;
    copy(*context_,
         {e.contribution, e.gradient, first ? WriteMode::assign : WriteMode::accumulate});
    e.contribution = Tensor();
  }
  ++e.contributions;
  gradients_->done(parameter);
}

}  // namespace viaduct
