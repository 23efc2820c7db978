// The parameter store where gradients, or weights as well, are shards, and where instances share
// the update of a shard.

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "ops/elementwise.h"
#include "sharding/parameter_store.h"

namespace viaduct {
namespace {

// Elements of layers that are gathered ahead at least, where the configuration leaves it open.
constexpr int64_t kLeastAhead = 40'000'000;

/// Elements of a bucket, counted from its beginning, that no op overwrites: padding, and parameters
/// whose gradients ops add to.
std::vector<Range> added_to(const ParameterBuffer& buffer, size_t bucket) {
  const Range& whole = buffer.layout().buckets[bucket];
  std::vector<Range> overwritten;
  for (size_t i = 0; i < buffer.parameters().size(); ++i) {
    const auto& place = buffer.layout().parameters[i];
    if (place.bucket == bucket && buffer.parameters()[i]->weight_gradient)
      overwritten.push_back({place.range.begin - whole.begin, place.range.end - whole.begin});
  }
  overwritten.push_back({whole.size(), whole.size()});
  std::sort(overwritten.begin(), overwritten.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> rest;
  int64_t at = 0;
  for (const Range& range : overwritten) {
    if (range.begin > at) rest.push_back({at, range.begin});
    at = range.end;
  }
  return rest;
}

}  // namespace

void ParameterStore::make_gradient_units(ReduceOp op) {
  std::vector<GradientUnits::Unit> units;
  for (const BucketPlace& place : buckets_) {
    const ParameterBuffer& buffer = buffers_[place.buffer];
    // A frozen unit has no gradient: nothing opens it.
    units.push_back({buffer.shard_gradients(place.bucket), buffer.own_gradients(place.bucket),
                     buffer.formats().message, buffer.layout().buckets[place.bucket].size(),
                     added_to(buffer, place.bucket), buffer.groups()});
  }
  gradient_units_ = std::make_unique<GradientUnits>(std::move(units), op,
                                                    settings_.overlap_grad_reduce, offloaded());
}

void ParameterStore::make_weight_units() {
  std::vector<WeightUnits::Unit> units;
  for (const BucketPlace& place : buckets_) {
    const ParameterBuffer& buffer = buffers_[place.buffer];
    units.push_back({buffer.shard_weights(place.bucket),
                     buffer.layout().buckets[place.bucket].size(), buffer.groups().shards});
  }
  weight_units_ = std::make_unique<WeightUnits>(device_, std::move(units), settings_.double_buffer,
                                                offloaded());
  if (!settings_.gather_ahead_elements)
    settings_.gather_ahead_elements = std::max(kLeastAhead, largest_layer());
}

int64_t ParameterStore::largest_layer() const {
  std::map<std::pair<size_t, int>, int64_t> layers;  // by chunk and layer
  int64_t largest = 0;
  for (const BucketPlace& place : buckets_) {
    const int layer = entry(*place.parameters.front()).layer;
    const int64_t elements = buffers_[place.buffer].layout().buckets[place.bucket].size();
    const int64_t whole = layer < 0 ? elements : layers[{place.chunk, layer}] += elements;
    largest = std::max(largest, whole);
  }
  return largest;
}

void ParameterStore::begin_unit_gradients(OpContext& context) {
  for (const BucketPlace& place : buckets_) view_gradients(place, Tensor());
  gradient_units_->begin_step(context);
}

void ParameterStore::view_gradients(const BucketPlace& place, const Tensor& whole) {
  for (const Parameter* parameter : place.parameters) {
    Entry& e = entry(*parameter);
    e.gradient = buffers_[place.buffer].in_bucket(whole, e.index);
    e.in_unit = 0;
  }
}

void ParameterStore::open_gradients(size_t unit) {
  VIADUCT_CHECK(ShapeError, context_.has_value(),
                "parameter store: a gradient of {} before the first step began",
                buckets_[unit].parameters.front()->path);
  view_gradients(buckets_[unit], gradient_units_->gradients(unit));
}

bool ParameterStore::unit_complete(const BucketPlace& place) const {
  const Entry& first = entry(*place.parameters.front());
  return std::ranges::all_of(place.parameters, [&](const Parameter* parameter) {
    const Entry& e = entry(*parameter);
    return !e.open && e.in_unit > 0 && e.in_unit % e.uses == 0 &&
           e.in_unit / e.uses == first.in_unit / first.uses;
  });
}

void ParameterStore::send_gradients(size_t unit) {
  view_gradients(buckets_[unit], Tensor());
  gradient_units_->send(unit);
}

void ParameterStore::send_open_units(OpContext& context) {
  for (size_t unit = 0; unit < buckets_.size(); ++unit) {
    if (!gradient_units_->open(unit)) continue;
    for (const Parameter* parameter : buckets_[unit].parameters) {
      const Entry& e = entry(*parameter);
      if (e.in_unit == 0 && parameter->weight_gradient) fill(context, {e.gradient, 0});
    }
    send_gradients(unit);
  }
}

void ParameterStore::gather_gradients() {
  if (!shards_gradients()) return reduction_->gather();
  for (size_t unit = 0; unit < buckets_.size(); ++unit)
    if (buckets_[unit].parameters.front()->trained)
      view_gradients(buckets_[unit], gradient_units_->gather(unit));
}

bool ParameterStore::plan_ahead(GatherPlan& plan, size_t unit) const {
  return settings_.overlap_param_gather &&
         weight_units_->plan_ahead(plan, unit, *settings_.gather_ahead_elements);
}

void ParameterStore::gather(const GatherPlan& plan) {
  for (size_t i = 0; i < plan.units.size(); ++i) {
    const size_t unit = plan.units[i];
    buckets_[unit].planned = true;
    // Weights from the second memory are gathered by the next plan, together with one more segment.
    if (i >= plan.now && weight_units_->fetch_ahead(unit)) continue;
    weight_units_->start(unit);
  }
  for (size_t i = 0; i < plan.now; ++i) weight_units_->require(plan.units[i]);
}

void ParameterStore::keep_gathered(const GatherPlan& plan) {
  for (size_t unit = 0; unit < buckets_.size(); ++unit) {
    buckets_[unit].planned = plan.has(unit);
    if (!buckets_[unit].planned && !in_use(buckets_[unit])) drop_weights(unit);
  }
}

bool ParameterStore::in_use(const BucketPlace& place) const {
  return std::ranges::any_of(
      place.parameters, [&](const Parameter* parameter) { return entry(*parameter).acquired > 0; });
}

void ParameterStore::drop_weights(size_t unit) {
  if (forms_ && weight_units_->held(unit)) {
    for (const Parameter* parameter : buckets_[unit].parameters) forms_->forget(*parameter);
  }
  weight_units_->drop(unit);
}

Tensor ParameterStore::weight_of_unit(const Parameter& parameter) const {
  const Entry& e = entry(parameter);
  VIADUCT_CHECK(ShapeError, weight_units_->complete(e.bucket),
                "parameter store: {} of generation {} is {}", parameter.path, generation_,
                weight_units_->stale() ? "not written yet" : "not gathered");
  return buffers_[e.buffer].in_bucket(weight_units_->weights(e.bucket), e.index);
}

void ParameterStore::gather_all_units() {
  VIADUCT_CHECK(ShapeError, !weight_units_->stale(),
                "parameter store: weights of generation {} are not written yet", generation_);
  for (size_t i = buckets_.size(); i-- > 0;) weight_units_->start(i);
  for (size_t i = 0; i < buckets_.size(); ++i) weight_units_->require(i);
}

void ParameterStore::gather_shards(size_t chunks) {
  if (!settings_.share_state) return;
  BlockCursor cursor(offloaded(), BlockCursor::Access::change);
  std::vector<CommHandle> handles;
  for (size_t i = buckets_.size(); i-- > 0;) {  // in the order of use
    BucketPlace& place = buckets_[i];
    if (place.chunk >= chunks || place.shard_gathered) continue;
    if (!place.parameters.front()->trained) continue;  // no instance has only a part of it
    const ParameterBuffer& buffer = buffers_[place.buffer];
    const Tensor shard = cursor.at(buffer.shard_weights(place.bucket));
    handles.push_back(
        buffer.groups().copies->all_gather(cursor.at(buffer.own_weights(place.bucket)), shard));
    if (settings_.offload_shards) handles.back().wait();  // moved out before the next is fetched
    place.shard_gathered = true;
  }
  for (CommHandle& handle : handles) handle.wait();
  cursor.finish();
}

}  // namespace viaduct
