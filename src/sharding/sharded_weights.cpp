#include "sharding/sharded_weights.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"

namespace viaduct {
namespace {

// Elements of layers that are gathered ahead at least, where the configuration leaves it open.
constexpr int64_t kLeastAhead = 40'000'000;

std::vector<WeightUnits::Unit> units_of(const ParameterEntries& entries) {
  std::vector<WeightUnits::Unit> units;
  for (const ParameterBucket& bucket : entries.buckets()) {
    const ParameterBuffer& buffer = entries.buffer_of(bucket);
    units.push_back({buffer.shard_weights(bucket.bucket),
                     buffer.layout().buckets[bucket.bucket].size(), buffer.groups().shards});
  }
  return units;
}

/// Elements of the units of the largest layer.
int64_t largest_layer(const ParameterEntries& entries) {
  std::map<std::pair<size_t, int>, int64_t> layers;  // by chunk and layer
  int64_t largest = 0;
  for (const ParameterBucket& bucket : entries.buckets()) {
    const int layer = entries.at(*bucket.parameters.front()).layer;
    const int64_t elements = entries.buffer_of(bucket).layout().buckets[bucket.bucket].size();
    const int64_t whole = layer < 0 ? elements : layers[{bucket.chunk, layer}] += elements;
    largest = std::max(largest, whole);
  }
  return largest;
}

}  // namespace

ShardedWeights::ShardedWeights(Device& device, const ParameterEntries& entries,
                               const StoreSettings& settings, OffloadedBlocks* blocks)
    : WeightStore(entries, settings, blocks),
      units_(device, units_of(entries), settings.double_buffer, blocks),
      ahead_elements_(
          settings.gather_ahead_elements.value_or(std::max(kLeastAhead, largest_layer(entries)))),
      planned_(entries.buckets().size(), false) {}

bool ShardedWeights::plan_ahead(GatherPlan& plan, size_t unit) const {
  return settings_.overlap_param_gather && units_.plan_ahead(plan, unit, ahead_elements_);
}

void ShardedWeights::gather(const GatherPlan& plan) {
  for (size_t i = 0; i < plan.units.size(); ++i) {
    const size_t unit = plan.units[i];
    planned_[unit] = true;
    // Weights from the second memory are gathered by the next plan, together with one more segment.
    if (i >= plan.now && units_.fetch_ahead(unit)) continue;
    units_.start(unit);
  }
  for (size_t i = 0; i < plan.now; ++i) units_.require(plan.units[i]);
}

void ShardedWeights::keep_gathered(const GatherPlan& plan) {
  for (size_t unit = 0; unit < planned_.size(); ++unit) {
    planned_[unit] = plan.has(unit);
    if (!planned_[unit] && !entries_.in_use(entries_.buckets()[unit])) drop(unit);
  }
}

Tensor ShardedWeights::weight(const Parameter& parameter) const {
  const ParameterEntry& e = entries_.at(parameter);
  VIADUCT_CHECK(ShapeError, units_.complete(e.bucket), "parameter store: {} of generation {} is {}",
                parameter.path, generation(), units_.stale() ? "not written yet" : "not gathered");
  return entries_.buffers()[e.buffer].in_bucket(units_.weights(e.bucket), e.index);
}

void ShardedWeights::require(const Parameter& parameter) {
  units_.require(entries_.at(parameter).bucket);
}

void ShardedWeights::released(const Parameter& parameter) {
  const size_t unit = entries_.at(parameter).bucket;
  if (!planned_[unit] && !entries_.in_use(entries_.buckets()[unit])) drop(unit);
}

void ShardedWeights::begin_generation() {
  keep_gathered({});
  units_.invalidate();
  instances_.invalidate();
  ++generation_;
}

void ShardedWeights::written() {
  instances_.gather(entries_.chunks());
  units_.own_written();
}

void ShardedWeights::finish() {
  VIADUCT_CHECK(ShapeError, !units_.stale(),
                "parameter store: weights of generation {} are not written yet", generation());
  for (size_t i = units_.size(); i-- > 0;) units_.start(i);
  for (size_t i = 0; i < units_.size(); ++i) units_.require(i);
}

void ShardedWeights::drop(size_t unit) {
  if (forms_ != nullptr && units_.held(unit)) {
    for (const Parameter* parameter : entries_.buckets()[unit].parameters)
      forms_->forget(*parameter);
  }
  units_.drop(unit);
}

}  // namespace viaduct
