#include "sharding/parameter_store.h"

#include "base/error.h"
#include "ops/elementwise.h"

namespace viaduct {
namespace {

constexpr int64_t kAlignment = 64;  // bytes; every parameter starts at a cache line

/// One flat buffer and the views of the parameters in it.
std::vector<Tensor> flat_views(Device& device, const std::vector<const Parameter*>& parameters,
                               DType dtype, MemoryTag tag) {
  const int64_t unit = dtype_bytes(dtype), step = kAlignment / unit;
  int64_t elements = 0;
  std::vector<int64_t> begins;
  for (const Parameter* parameter : parameters) {
    begins.push_back(elements);
    elements += (parameter->shape.elements() + step - 1) / step * step;
  }
  const Tensor flat = device.allocate(dtype, {elements}, tag);
  std::vector<Tensor> views;
  for (size_t i = 0; i < parameters.size(); ++i) {
    views.emplace_back(flat.storage(), dtype, parameters[i]->shape, begins[i] * unit);
  }
  return views;
}

}  // namespace

ParameterStore::ParameterStore(Device& device, const PrecisionRecipe& recipe,
                               std::vector<const Parameter*> parameters, bool with_gradients)
    : parameters_(std::move(parameters)) {
  const bool separate_master = with_gradients && !recipe.master_is_weight();
  const auto weights = flat_views(device, parameters_, recipe.weight, MemoryTag::weights);
  std::vector<Tensor> masters, gradients;
  if (separate_master)
    masters = flat_views(device, parameters_, recipe.master, MemoryTag::master_weights);
  if (with_gradients)
    gradients = flat_views(device, parameters_, recipe.main_gradient, MemoryTag::main_gradients);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Entry entry;
    entry.weight = weights[i];
    entry.master = separate_master ? masters[i] : weights[i];
    if (with_gradients) entry.gradient = gradients[i];
    const bool inserted = entries_.emplace(parameters_[i], std::move(entry)).second;
    VIADUCT_CHECK(ShapeError, inserted, "parameter store: {} is listed twice",
                  parameters_[i]->path);
  }
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

void ParameterStore::publish_masters(OpContext& context) {
  for (const Parameter* parameter : parameters_) {
    const Entry& e = entry(*parameter);
    if (e.master.storage() != e.weight.storage()) copy(context, {e.master, e.weight});
  }
  advance_generation();
}

void ParameterStore::advance_generation() {
  for (const auto& [parameter, e] : entries_) {
    VIADUCT_CHECK(ShapeError, e.acquired == 0, "parameter store: {} is in use while weights change",
                  parameter->path);
  }
  ++generation_;
}

void ParameterStore::begin_step(OpContext& context) {
  for (const Parameter* parameter : parameters_) {
    Entry& e = entry(*parameter);
    e.touched = false;
    // Their ops only add; gradients of matrices are overwritten by their first contribution
    // instead.
    if (!parameter->weight_gradient) fill(context, {e.gradient, 0});
  }
}

void ParameterStore::finish_gradients(OpContext& context) {
  for (const Parameter* parameter : parameters_) {
    Entry& e = entry(*parameter);
    VIADUCT_CHECK(ShapeError, !e.open, "parameter store: a gradient of {} is not done",
                  parameter->path);
    if (!e.touched && parameter->weight_gradient) fill(context, {e.gradient, 0});
  }
}

Tensor ParameterStore::acquire(const Parameter& parameter, WeightUse) {
  Entry& e = entry(parameter);
  ++e.acquired;
  return e.weight;
}

void ParameterStore::release(const Parameter& parameter, WeightUse) {
  --entry(parameter).acquired;
}

GradientAccess::Destination ParameterStore::gradient(const Parameter& parameter) {
  Entry& e = entry(parameter);
  VIADUCT_CHECK(ShapeError, e.gradient.defined(), "parameter store: {} has no gradient here",
                parameter.path);
  e.open = true;
  const bool overwrite = !e.touched && parameter.weight_gradient;
  return {e.gradient, overwrite ? WriteMode::assign : WriteMode::accumulate};
}

void ParameterStore::done(const Parameter& parameter) {
  Entry& e = entry(parameter);
  VIADUCT_CHECK(ShapeError, e.open, "parameter store: done({}) without gradient()", parameter.path);
  e.open = false;
  e.touched = true;
}

}  // namespace viaduct
