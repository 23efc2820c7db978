#include "sharding/parameter_store.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/elementwise.h"
#include "ops/optimizer.h"
#include "ops/table.h"
#include "sharding/master_values.h"
#include "sharding/name_patterns.h"
#include "sharding/replica_gradients.h"

namespace viaduct {
namespace {

/// Elements that close a bucket.
int64_t bucket_elements(const StoreSettings& settings, const std::vector<LayoutParameter>& sizes) {
  if (settings.num_buckets == 0) return settings.bucket_elements;
  int64_t elements = 0;
  for (const LayoutParameter& size : sizes) elements += size.elements;
  return (elements + settings.num_buckets - 1) / settings.num_buckets;
}

}  // namespace

ParameterStore::ParameterStore(Device& device, const PrecisionRecipe& recipe,
                               const std::vector<std::vector<const Parameter*>>& chunks,
                               const StoreSettings& settings, const ParallelGroups& groups)
    : settings_(settings),
      groups_(groups),
      format_(recipe.weight),
      kernel_gradient_(recipe.main_gradient),
      optimizer_gradient_(recipe.optimizer_gradient),
      shard_multiple_(recipe.scaled_state() ? kStateGroup : 1),
      device_(device) {
  VIADUCT_CHECK(ShapeError, settings.distributed_optimizer || groups.dp_cp_inner->size() == 1,
                "parameter store: without the distributed optimizer every data rank is an instance "
                "of its own, but {} ranks share one",
                groups.dp_cp_inner->size());
  VIADUCT_CHECK(ShapeError,
                !settings.reduce_by_exchange ||
                    (settings.distributed_optimizer && groups.dp_cp_outer->size() == 1),
                "parameter store: an exchange of shards needs the distributed optimizer and one "
                "instance of it, found {}",
                groups.dp_cp_outer->size());
  // Without virtual stages the one reduction of a stage starts with its last backward anyway.
  settings_.align_grad_reduce &= groups.pp->size() > 1 && chunks.size() > 1;
  const BufferFormats formats{recipe.weight,
                              settings.fp32_gradients ? recipe.main_gradient : recipe.weight,
                              recipe.master,
                              settings.with_gradients,
                              recipe.master_is_weight(),
                              settings.with_masters};
  for (const auto& uses : chunks) add_chunk(device, formats, uses);
  list_buckets();
  list_runs(device);
  add_accumulations(device);

  std::vector<GradientReduction::Bucket> gradients;
  std::vector<WeightGather::Bucket> weights;
  for (const BucketPlace& place : buckets_) {
    const ParameterBuffer& buffer = buffers_[place.buffer];
    gradients.push_back(
        {buffer.bucket_gradients(place.bucket), buffer.own_gradients(place.bucket)});
    weights.push_back({buffer.bucket_weights(place.bucket), buffer.own_weights(place.bucket)});
  }
  std::reverse(weights.begin(), weights.end());
  reduction_ = std::make_unique<GradientReduction>(
      std::move(gradients), groups_,
      settings.average_in_collective ? ReduceOp::average : ReduceOp::sum,
      settings.reduce_by_exchange ? GradientReduction::Way::exchange
                                  : GradientReduction::Way::reduce_scatter);
  if (settings.bucket_norms && settings.with_gradients) {
    bucket_norms_ =
        device.allocate(DType::f64, {static_cast<int64_t>(buckets_.size()), kReproducibleSumSize},
                        MemoryTag::other);
    reduction_->before_sending([this](size_t bucket) { add_bucket_norm(bucket); });
  }
  gather_ = std::make_unique<WeightGather>(std::move(weights), groups_.dp_cp_inner);
}

void ParameterStore::add_chunk(Device& device, const BufferFormats& formats,
                               const std::vector<const Parameter*>& uses) {
  const size_t chunk = buffers_.size();
  std::vector<const Parameter*> parameters;
  std::vector<LayoutParameter> sizes;
  for (const Parameter* parameter : uses) {
    const bool first = entries_.find(parameter) == entries_.end();
    VIADUCT_CHECK(
        ShapeError,
        first || parameters.end() != std::find(parameters.begin(), parameters.end(), parameter),
        "parameter store: {} is in two chunks", parameter->path);
    ++entries_[parameter].uses;
    if (!first) continue;
    parameters.push_back(parameter);
    sizes.push_back({parameter->shape.elements(), !parameter->holders.empty()});
  }
  LayoutSettings layout;
  layout.shards = groups_.dp_cp_inner->size();
  layout.padded = settings_.distributed_optimizer;
  layout.shard_multiple = shard_multiple_;
  layout.pad_for_bus_bandwidth = settings_.pad_for_bus_bandwidth;
  // Later chunks and stages have time for one message: their backward ends before the first's.
  const bool several = settings_.overlap_grad_reduce && !settings_.gather_with_optimizer_step;
  if (several && groups_.pp->rank() == 0 && chunk == 0)
    layout.bucket_elements = bucket_elements(settings_, sizes);
  parameters_.insert(parameters_.end(), parameters.begin(), parameters.end());
  buffers_.emplace_back(device, std::move(parameters), make_buffer_layout(sizes, layout), formats,
                        groups_.dp_cp_inner->rank());
}

void ParameterStore::list_buckets() {
  for (size_t b = buffers_.size(); b-- > 0;) {
    const ParameterBuffer& buffer = buffers_[b];
    const size_t first = buckets_.size();
    for (size_t i = 0; i < buffer.layout().buckets.size(); ++i) buckets_.push_back({b, i});
    for (size_t i = 0; i < buffer.parameters().size(); ++i) {
      Entry& e = entry(*buffer.parameters()[i]);
      e.weight = buffer.weight(i);
      e.gradient = buffer.gradient(i);
      e.bucket = first + buffer.layout().parameters[i].bucket;
      ++buckets_[e.bucket].parameters;
    }
  }
}

void ParameterStore::add_accumulations(Device& device) {
  for (const Parameter* parameter : parameters_) {
    Entry& e = entry(*parameter);
    if (!e.gradient || e.gradient.dtype() == kernel_gradient_) continue;
    if (any_fits(settings_.fp32_accumulation, *parameter)) {
      e.accumulation =
          device.allocate(kernel_gradient_, parameter->shape, MemoryTag::main_gradients);
    }
  }
}

void ParameterStore::list_runs(Device& device) {
  for (const ParameterBuffer& buffer : buffers_) {
    for (size_t i = 0; i < buffer.parameters().size(); ++i) {
      const auto ranges = shard_ranges(buffer.layout(), i, buffer.shard());
      if (!ranges) continue;
      const size_t bucket = buffer.layout().parameters[i].bucket;
      const auto run_of = [&](const Tensor& own) {
        return own ? own.slice(0, ranges->in_shard.begin, ranges->in_shard.size()) : own;
      };
      entry(*buffer.parameters()[i]).run = static_cast<int>(runs_.size());
      runs_.push_back({buffer.parameters()[i], ranges->in_parameter,
                       run_of(buffer.own_weights(bucket)), run_of(buffer.own_masters(bucket)),
                       run_of(buffer.own_gradients(bucket)), Tensor()});
      ShardRun& run = runs_.back();
      if (run.master.storage() != run.weight.storage() && has_state_scales(run.master.dtype())) {
        run.master_scales = device.allocate(DType::f32, {state_groups(run.range.size())},
                                            MemoryTag::master_weights);
      }
      run_gradients_.push_back(runs_.back().gradient);
    }
    runs_end_.push_back(runs_.size());
  }
}

void ParameterStore::derive_weights(const OpContext& context, bool packed) {
  VIADUCT_CHECK(ConfigError,
                !packed || parameters_.empty() || reads_packed_weights(context.ops, format_),
                "packed weights: products of {} read {} as it is", context.ops.traits.name,
                dtype_name(format_));
  forms_.emplace(context, parameters_, format_, packed, settings_.with_gradients);
}

void ParameterStore::make_derived_weights() {
  if (!forms_) return;
  for (const Parameter* parameter : parameters_)
    forms_->make(*parameter, weight(*parameter), generation_);
}

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
  return run->master.view(parameter.shape);
}

void ParameterStore::publish_masters(OpContext& context) {
  advance_generation();
  for (const ShardRun& run : runs_) {
    if (run.master.storage() == run.weight.storage() || run.master.dtype() == DType::i16) continue;
    copy(context, {master_values(context, run), run.weight});
  }
  weights_written();
  finish_gathers();
}

void ParameterStore::advance_generation() {
  for (const auto& [parameter, e] : entries_) {
    VIADUCT_CHECK(ShapeError, e.acquired == 0, "parameter store: {} is in use while weights change",
                  parameter->path);
  }
  gather_->invalidate();
  ++generation_;
}

size_t ParameterStore::buckets_of_first(size_t chunks) const {
  const auto among = [&](const BucketPlace& place) { return place.buffer < chunks; };
  return static_cast<size_t>(std::count_if(buckets_.begin(), buckets_.end(), among));
}

void ParameterStore::chunk_written(size_t chunk) {
  if (settings_.gather_with_optimizer_step) gather_->own_written(buckets_of_first(chunk + 1));
}

void ParameterStore::weights_written() {
  gather_->own_written();
  if (!settings_.overlap_param_gather) gather_->finish();
}

void ParameterStore::finish_gathers() {
  VIADUCT_CHECK(ShapeError, !gather_->stale(),
                "parameter store: weights of generation {} are not written yet", generation_);
  gather_->finish();
}

void ParameterStore::begin_chunk(size_t chunk) {
  if (!settings_.align_param_gather || gather_->stale()) return;
  gather_->start(buckets_of_first(chunk + 2));
}

void ParameterStore::begin_step(OpContext& context) {
  context_.emplace(context);
  reduction_->begin_step(context);
  narrow_run_gradients();
  for (const Parameter* parameter : parameters_) {
    Entry& e = entry(*parameter);
    e.contributions = 0;
    e.expected = -1;
    e.rounded = false;
    // Their ops only add; gradients of matrices are overwritten by their first contribution
    // instead.
    if (!parameter->weight_gradient) fill(context, {accumulated(e), 0});
  }
}

void ParameterStore::expect_backwards(int64_t backwards) {
  if (!settings_.overlap_grad_reduce) return;
  for (auto& [parameter, e] : entries_) e.expected = e.uses * backwards;
  for (BucketPlace& place : buckets_) place.incomplete = place.parameters;
}

void ParameterStore::reduce_chunk(size_t chunk) {
  if (!settings_.align_grad_reduce) return;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    if (buckets_[i].buffer == chunk && buckets_[i].incomplete == 0) reduction_->complete(i);
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
    const Tensor state =
        bucket_norms_.slice(0, static_cast<int64_t>(i), 1).view({kReproducibleSumSize});
    sum_value(*context_, {state, value});
    norms.push_back(std::sqrt(host_read(device_, value, "norm of a gradient bucket", 0)));
  }
  return norms;
}

void ParameterStore::finish_gradients(OpContext& context) {
  for (const Parameter* parameter : parameters_) {
    Entry& e = entry(*parameter);
    VIADUCT_CHECK(ShapeError, !e.open, "parameter store: a gradient of {} is not done",
                  parameter->path);
    if (e.contributions == 0 && parameter->weight_gradient) fill(context, {accumulated(e), 0});
    round_accumulation(context, e);
  }
  reduction_->finish();
  sum_replica_gradients(context, runs_, groups_);
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
  if (runs_.empty() || run_gradients_[0].dtype() == kernel_gradient_ ||
      run_gradients_[0].dtype() == optimizer_gradient_)
    return;
  int64_t elements = 0;
  for (const ShardRun& run : runs_) elements += run.range.size();
  const Tensor wide = context.allocate(kernel_gradient_, {elements}, MemoryTag::workspace);
  int64_t begin = 0;
  for (ShardRun& run : runs_) {
    const Tensor place = wide.slice(0, begin, run.range.size());
    copy(context, {run.gradient, place});
    run.gradient = place;
    begin += run.range.size();
  }
}

double ParameterStore::gradient_divisor() const {
  return settings_.average_in_collective ? groups_.dp_cp_inner->size() * groups_.dp_cp_outer->size()
                                         : 1;
}

Operand ParameterStore::acquire(const Parameter& parameter, WeightUse use, int64_t run) {
  Entry& e = entry(parameter);
  if (!gather_->stale()) gather_->require(gather_place(e.bucket));
  const Tensor canonical = weight(parameter);
  Operand found =
      forms_ ? forms_->form(parameter, use, run, canonical, generation_) : Operand(canonical);
  ++e.acquired;
  return found;
}

void ParameterStore::release(const Parameter& parameter, WeightUse) {
  --entry(parameter).acquired;
}

GradientAccess::Destination ParameterStore::gradient(const Parameter& parameter) {
  Entry& e = entry(parameter);
  VIADUCT_CHECK(ShapeError, e.gradient.defined(), "parameter store: {} has no gradient here",
                parameter.path);
  VIADUCT_CHECK(ShapeError, e.expected < 0 || e.contributions < e.expected,
                "parameter store: {} gets a gradient after its last one was announced",
                parameter.path);
  e.open = true;
  const bool overwrite = e.contributions == 0 && parameter.weight_gradient;
  if (const Tensor& target = accumulated(e); target.dtype() == kernel_gradient_)
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
    const bool first = e.contributions == 0;
    copy(*context_,
         {e.contribution, e.gradient, first ? WriteMode::assign : WriteMode::accumulate});
    e.contribution = Tensor();
  }
  ++e.contributions;
  if (e.contributions != e.expected) return;
  if (e.accumulation) round_accumulation(*context_, e);
  const bool complete = --buckets_[e.bucket].incomplete == 0;
  if (complete && !settings_.align_grad_reduce) reduction_->complete(e.bucket);
}

}  // namespace viaduct
