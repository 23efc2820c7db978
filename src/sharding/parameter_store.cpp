#include "sharding/parameter_store.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/elementwise.h"
#include "ops/optimizer.h"
#include "sharding/master_values.h"
#include "sharding/replica_gradients.h"
#include "sharding/run_cursor.h"

namespace viaduct {

const ParameterStore::Entry& ParameterStore::entry(const Parameter& parameter) const {
  const auto found = entries_.find(&parameter);
  VIADUCT_CHECK(ShapeError, found != entries_.end(), "parameter store: {} does not live here",
                parameter.path);
  return found->second;
}

ParameterStore::Entry& ParameterStore::entry(const Parameter& parameter) {
  return const_cast<Entry&>(std::as_const(*this).entry(parameter));
}

const ShardRun* ParameterStore::run_of(const Parameter& parameter) const {
  const int run = entry(parameter).run;
  return run < 0 ? nullptr : &runs_[static_cast<size_t>(run)];
}

Tensor ParameterStore::weight(const Parameter& parameter) const {
  const Entry& e = entry(parameter);
  if (shards_weights()) return weight_of_unit(parameter);
  VIADUCT_CHECK(ShapeError,
                !passes_gradients(parameter) ||
                    (staged_generation_ == generation_ && !formed(buckets_[e.bucket].chunk)),
                "parameter store: the 16-bit weight {} of generation {} is not in the memory of "
                "gradients",
                parameter.path, generation_);
  VIADUCT_CHECK(ShapeError, gather_->whole(gather_place(e.bucket)),
                "parameter store: {} of generation {} is {}", parameter.path, generation_,
                gather_->stale() ? "not written yet" : "not gathered");
  return e.weight;
}

Tensor ParameterStore::main_gradient(const Parameter& parameter) const {
  return entry(parameter).gradient;
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
  frozen_generation_ = generation_;
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
  for (const auto& [parameter, e] : entries_) {
    VIADUCT_CHECK(ShapeError, e.acquired == 0, "parameter store: {} is in use while weights change",
                  parameter->path);
  }
  if (shards_weights()) {
    keep_gathered({});
    weight_units_->invalidate();
  } else {
    gather_->invalidate();
  }
  for (BucketPlace& place : buckets_) place.shard_gathered = false;
  written_chunks_ = 0;
  ++generation_;
}

size_t ParameterStore::buckets_of_first(size_t chunks) const {
  const auto among = [&](const BucketPlace& place) { return place.chunk < chunks; };
  return static_cast<size_t>(std::count_if(buckets_.begin(), buckets_.end(), among));
}

void ParameterStore::chunk_written(size_t chunk) {
  if (!settings_.gather_with_optimizer_step || !gather_) return;
  write_codes(chunk + 1);
  gather_shards(chunk + 1);
  gather_->own_written(buckets_of_first(chunk + 1));
}

void ParameterStore::weights_written() {
  write_codes(chunks());
  // Gradients stay until the weights that reuse their memory are used.
  if (!staging_) gather_shards(chunks());
  if (shards_weights()) return weight_units_->own_written();
  gather_->own_written();
  if (!staging_ && !settings_.overlap_param_gather) gather_->finish();
}

void ParameterStore::finish_gathers() {
  if (shards_weights()) return gather_all_units();
  VIADUCT_CHECK(ShapeError, !gather_->stale(),
                "parameter store: weights of generation {} are not written yet", generation_);
  stage_weights();
  gather_->finish();
  for (size_t chunk = 0; chunk < chunks(); ++chunk) end_staging(chunk);
}

void ParameterStore::begin_chunk(size_t chunk) {
  if (!settings_.align_param_gather || shards_weights() || gather_->stale()) return;
  stage_weights();
  gather_->start(buckets_of_first(chunk + 2));
}

void ParameterStore::begin_step(OpContext& context) {
  context_.emplace(context);
  if (!shards_weights() && !gather_->stale()) stage_weights();
  if (shards_gradients()) {
    begin_unit_gradients(context);
  } else {
    reduction_->begin_step(context);
  }
  narrow_run_gradients();
  for (const Parameter* parameter : parameters_) {
    Entry& e = entry(*parameter);
    e.contributions = 0;
    e.expected = -1;
    e.rounded = false;
    // Their ops only add; gradients of matrices are overwritten by their first contribution
    // instead.
    if (!parameter->weight_gradient && parameter->trained && !shards_gradients())
      fill(context, {accumulated(e), 0});
  }
}

void ParameterStore::expect_backwards(int64_t backwards) {
  if (!settings_.overlap_grad_reduce) return;
  for (auto& [parameter, e] : entries_) e.expected = e.uses * backwards;
  for (BucketPlace& place : buckets_)
    place.incomplete = static_cast<int64_t>(place.parameters.size());
}

void ParameterStore::reduce_chunk(size_t chunk) {
  if (!settings_.align_grad_reduce || shards_gradients()) return;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    if (buckets_[i].chunk == chunk && buckets_[i].incomplete == 0) reduction_->complete(i);
  }
}

void ParameterStore::add_bucket_norm(size_t bucket) {
  const BucketPlace& place = buckets_[bucket];
  Tensor gradients = buffers_[place.buffer].bucket_gradients(place.bucket);
  if (gradients.dtype() != kernel_gradient_) {
    const Tensor wide =
        context_->allocate(kernel_gradient_, gradients.shape(), MemoryTag::workspace);
    copy(*context_, {gradients, wide});
    gradients = wide;
  }
  const Tensor state =
      bucket_norms_.slice(0, static_cast<int64_t>(bucket), 1).view({kReproducibleSumSize});
  fill(*context_, {state, 0});
  reproducible_sum(*context_, {gradients, Tensor(), true, state});
}

std::vector<double> ParameterStore::bucket_norms() {
  std::vector<double> norms;
  const Tensor value = context_->allocate(DType::f64, {1}, MemoryTag::workspace);
  for (size_t i = 0; i < buckets_.size(); ++i) {
    if (!buckets_[i].parameters.front()->trained) continue;
    const Tensor state =
        bucket_norms_.slice(0, static_cast<int64_t>(i), 1).view({kReproducibleSumSize});
    sum_value(*context_, {state, value});
    norms.push_back(std::sqrt(host_read(device_, value, "norm of a gradient bucket", 0)));
  }
  return norms;
}

void ParameterStore::finish_gradients(OpContext& context) {
  for (size_t chunk = 0; chunk < chunks(); ++chunk) end_staging(chunk);
  for (const Parameter* parameter : parameters_) {
    Entry& e = entry(*parameter);
    VIADUCT_CHECK(ShapeError, !e.open, "parameter store: a gradient of {} is not done",
                  parameter->path);
    if (shards_gradients() || !parameter->trained) continue;
    if (e.contributions == 0 && parameter->weight_gradient) fill(context, {accumulated(e), 0});
    round_accumulation(context, e);
  }
  if (shards_gradients()) {
    send_open_units(context);
    gradient_units_->finish();
  } else {
    reduction_->finish();
  }
  scale_means_of_other_grids(context);
  sum_replica_gradients(context, runs_, groups_, offloaded());
  widen_run_gradients(context);
}

void ParameterStore::round_accumulation(OpContext& context, Entry& e) {
  if (!e.accumulation || e.rounded) return;
  copy(context, {e.accumulation, e.gradient});
  e.rounded = true;
}

void ParameterStore::narrow_run_gradients() {
  for (size_t i = 0; i < runs_.size(); ++i) runs_[i].gradient = run_gradients_[i];
}

void ParameterStore::widen_run_gradients(OpContext& context) {
  const auto narrow = [&](const ShardRun& run) {
    return run.gradient.dtype() != kernel_gradient_ &&
           run.gradient.dtype() != recipe_.optimizer_gradient;
  };
  int64_t elements = 0;
  for (const ShardRun& run : runs_) elements += narrow(run) ? run.range.size() : 0;
  if (elements == 0) return;
  VIADUCT_CHECK(ShapeError, !settings_.offload_shards,
                "parameter store: gradients in a second memory are read as they are, in {}",
                dtype_name(recipe_.optimizer_gradient));
  const Tensor wide = context.allocate(kernel_gradient_, {elements}, MemoryTag::workspace);
  int64_t begin = 0;
  for (ShardRun& run : runs_) {
    if (!narrow(run)) continue;
    const Tensor place = wide.slice(0, begin, run.range.size());
    copy(context, {run.gradient, place});
    run.gradient = place;
    begin += run.range.size();
  }
}

double ParameterStore::gradient_divisor() const {
  return settings_.average_in_collective ? groups_.dp_cp().size() : 1;
}

void ParameterStore::scale_means_of_other_grids(OpContext& context) {
  if (!settings_.average_in_collective) return;
  for (const ShardRun& run : runs_) {
    const int ranks = buffers_[entry(*run.parameter).buffer].groups().ranks->size();
    if (ranks == groups_.dp_cp().size()) continue;
    scale(context, {run.gradient, run.gradient, ranks / gradient_divisor()});
  }
}

Operand ParameterStore::acquire(const Parameter& parameter, WeightUse use, int64_t run) {
  Entry& e = entry(parameter);
  if (shards_weights()) {
    weight_units_->require(e.bucket);
  } else if (!gather_->stale()) {
    stage_weights();
    gather_->require(gather_place(e.bucket));
  }
  const bool passes = passes_gradients(parameter);
  if (passes && !formed(buckets_[e.bucket].chunk))
    forms_->make(parameter, weight(parameter), generation_);
  const Tensor canonical = passes ? Tensor() : weight(parameter);
  Operand found = parameter.stored && frozen_
                      ? frozen_->matrix(parameter, canonical, recipe_.weight)
                  : stores_codes(parameter) && codes_ ? codes_->operand(parameter, canonical)
                  : forms_ ? forms_->form(parameter, use, run, canonical, generation_of(parameter))
                           : Operand(canonical);
  ++e.acquired;
  return found;
}

void ParameterStore::release(const Parameter& parameter, WeightUse) {
  Entry& e = entry(parameter);
  --e.acquired;
  if (shards_weights() && !buckets_[e.bucket].planned && !in_use(buckets_[e.bucket]))
    drop_weights(e.bucket);
}

GradientAccess::Destination ParameterStore::gradient(const Parameter& parameter) {
  return destination(parameter, kernel_gradient_);
}

GradientAccess::Destination ParameterStore::product_gradient(const Parameter& parameter) {
  return destination(parameter, recipe_.activation);
}

GradientAccess::Destination ParameterStore::destination(const Parameter& parameter, DType format) {
  Entry& e = entry(parameter);
  end_staging(buckets_[e.bucket].chunk);
  if (shards_gradients() && !gradient_units_->open(e.bucket)) open_gradients(e.bucket);
  VIADUCT_CHECK(ShapeError, e.gradient.defined(), "parameter store: {} has no gradient here",
                parameter.path);
  VIADUCT_CHECK(ShapeError, e.expected < 0 || e.contributions < e.expected,
                "parameter store: {} gets a gradient after its last one was announced",
                parameter.path);
  e.open = true;
  const int64_t before = shards_gradients() ? e.in_unit : e.contributions;
  const bool overwrite = before == 0 && parameter.weight_gradient;
  const Tensor& target = accumulated(e);
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
  Entry& e = entry(parameter);
  VIADUCT_CHECK(ShapeError, e.open, "parameter store: done({}) without gradient()", parameter.path);
  e.open = false;
  if (e.contribution) {
    const bool first = (shards_gradients() ? e.in_unit : e.contributions) == 0;
    copy(*context_,
         {e.contribution, e.gradient, first ? WriteMode::assign : WriteMode::accumulate});
    e.contribution = Tensor();
  }
  ++e.contributions;
  ++e.in_unit;
  if (shards_gradients()) {
    if (unit_complete(buckets_[e.bucket])) send_gradients(e.bucket);
    return;
  }
  if (e.contributions != e.expected) return;
  if (e.accumulation) round_accumulation(*context_, e);
  const bool complete = --buckets_[e.bucket].incomplete == 0;
  if (complete && !settings_.align_grad_reduce) reduction_->complete(e.bucket);
}

}  // namespace viaduct
