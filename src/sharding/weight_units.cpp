#include "sharding/weight_units.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace viaduct {
namespace {

constexpr int kBuffers = 2;

/// The most frequent number of elements of a unit (the larger one of two); 0 if no two agree.
int64_t frequent_size(const std::vector<WeightUnits::Unit>& units) {
  std::map<int64_t, int> counts;
  for (const auto& unit : units)
    if (unit.group->size() > 1) ++counts[unit.elements];
  int64_t size = 0;
  int most = 1;
  for (const auto& [elements, count] : counts) {
    if (count > 1 && count >= most) size = elements, most = count;
  }
  return size;
}

}  // namespace

bool GatherPlan::has(size_t unit) const {
  return std::find(units.begin(), units.end(), unit) != units.end();
}

WeightUnits::WeightUnits(Device& device, std::vector<Unit> units, bool double_buffer,
                         OffloadedBlocks* blocks)
    : device_(device),
      blocks_(blocks),
      units_(std::move(units)),
      states_(units_.size()),
      buffered_(units_.size(), false) {
  const int64_t size = double_buffer ? frequent_size(units_) : 0;
  if (size == 0) return;
  const auto fits = [&](const Unit& unit) {
    return unit.elements == size && unit.group->size() > 1;
  };
  const Unit& first = *std::find_if(units_.begin(), units_.end(), fits);
  const DType format = first.own.dtype();
  for (size_t i = 0; i < units_.size(); ++i)
    buffered_[i] = fits(units_[i]) && units_[i].own.dtype() == format;
  for (int i = 0; i < kBuffers; ++i)
    buffers_.push_back({device_.allocate(format, {first.values()}, MemoryTag::weights)});
}

WeightUnits::~WeightUnits() {
  try {
    for (State& state : states_) state.handle.wait();
  } catch (...) {  // a rank failed: the error is reported where the run ends
  }
}

void WeightUnits::invalidate() {
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    VIADUCT_CHECK(ShapeError, !held(unit), "weights: unit {} is held while its shards change",
                  unit);
  }
  stale_ = true;
}

void WeightUnits::plan_now(GatherPlan& plan, size_t unit) const {
  if (plan.has(unit)) return;
  plan.units.push_back(unit);
  ++plan.now;
  plan.buffered += buffered_[unit] ? 1 : 0;
}

bool WeightUnits::plan_ahead(GatherPlan& plan, size_t unit, int64_t most) const {
  if (plan.has(unit)) return true;
  const int buffered = plan.buffered + (buffered_[unit] ? 1 : 0);
  const int64_t elements = plan.ahead_elements + units_[unit].elements;
  if (elements > most || (buffered_[unit] && buffered > kBuffers)) return false;
  plan.units.push_back(unit);
  plan.ahead_elements = elements, plan.buffered = buffered;
  return true;
}

Tensor WeightUnits::memory(size_t unit) {
  for (size_t i = 0; buffered_[unit] && i < buffers_.size(); ++i) {
    if (buffers_[i].taken) continue;
    buffers_[i].taken = true;
    states_[unit].buffer = static_cast<int>(i);
    return buffers_[i].memory;
  }
  // Without a plan a third unit may be needed: it has its own memory.
  return device_.allocate(units_[unit].own.dtype(), {units_[unit].values()}, MemoryTag::weights);
}

bool WeightUnits::fetch_ahead(size_t unit) {
  State& state = states_[unit];
  if (held(unit) || state.fetched || blocks_ == nullptr) return false;
  const auto block = blocks_->block_of(units_[unit].own);
  if (!block) return false;
  VIADUCT_CHECK(ShapeError, !stale_, "weights: the shard of unit {} is not written yet", unit);
  blocks_->fetch(*block);
  state.fetched = true;
  return true;
}

void WeightUnits::give_up_own(size_t unit) {
  State& state = states_[unit];
  if (!state.fetched) return;
  const size_t block = *blocks_->block_of(units_[unit].own);
  blocks_->require(block);
  blocks_->leave(block, false);
  state.fetched = false;
}

void WeightUnits::start(size_t unit) {
  if (held(unit)) return;
  VIADUCT_CHECK(ShapeError, !stale_, "weights: the shard of unit {} is not written yet", unit);
  State& state = states_[unit];
  const Unit& of = units_[unit];
  Tensor own = of.own;
  fetch_ahead(unit);
  if (state.fetched) {
    blocks_->require(*blocks_->block_of(own));
    own = blocks_->present(own);
  }
  if (of.group->size() == 1) {
    state.whole = own;  // all there is
    return;
  }
  state.whole = memory(unit);
  state.handle = of.group->all_gather(own, state.whole);
}

const Tensor& WeightUnits::require(size_t unit) {
  start(unit);
  State& state = states_[unit];
  state.handle.wait();
  if (units_[unit].group->size() > 1) give_up_own(unit);
  state.complete = true;
  return state.whole;
}

void WeightUnits::drop(size_t unit) {
  if (!held(unit)) return give_up_own(unit);
  State& state = states_[unit];
  state.handle.wait();
  state.whole = Tensor();
  give_up_own(unit);
  if (state.buffer >= 0) buffers_[static_cast<size_t>(state.buffer)].taken = false;
  state = {};
}

}  // namespace viaduct
