#include "sharding/gradient_units.h"

#include "ops/elementwise.h"

namespace viaduct {

GradientUnits::GradientUnits(std::vector<Unit> units, ReduceOp op, bool overlap)
    : units_(std::move(units)), states_(units_.size()), op_(op), overlap_(overlap) {}

void GradientUnits::begin_step(OpContext& context) {
  context_.emplace(context);
  for (State& state : states_) state = {};
}

const Tensor& GradientUnits::gradients(size_t unit) {
  State& state = states_[unit];
  if (state.whole) return state.whole;
  const Unit& of = units_[unit];
  state.whole = context_->allocate(of.own.dtype(), {of.elements}, MemoryTag::main_gradients);
  for (const Range& range : of.added_to)
    fill(*context_, {state.whole.slice(0, range.begin, range.size()), 0});
  return state.whole;
}

void GradientUnits::send(size_t unit) {
  settle();
  State& state = states_[unit];
  const Unit& of = units_[unit];
  Sending& sending = sending_.emplace();
  sending.unit = unit;
  sending.first = !state.summed;
  sending.whole = std::move(state.whole);
  sending.sum = sending.first
                    ? of.own
                    : context_->allocate(of.own.dtype(), of.own.shape(), MemoryTag::main_gradients);
  sending.handle = of.groups.shards->reduce_scatter(sending.whole, sending.sum, op_);
  state.whole = Tensor();
  state.summed = true;
  if (!overlap_) settle();
}

void GradientUnits::settle() {
  if (!sending_) return;
  sending_->handle.wait();
  if (!sending_->first) {
    const Tensor& own = units_[sending_->unit].own;
    copy(*context_, {sending_->sum, own, WriteMode::accumulate});
  }
  sending_.reset();
}

void GradientUnits::finish() {
  settle();
  std::vector<CommHandle> handles;
  for (size_t i = 0; i < units_.size(); ++i) {
    if (!states_[i].summed) fill(*context_, {units_[i].own, 0});
    handles.push_back(units_[i].groups.copies->all_reduce(units_[i].own, op_));
  }
  for (CommHandle& handle : handles) handle.wait();
}

const Tensor& GradientUnits::gather(size_t unit) {
  const Unit& of = units_[unit];
  Tensor& whole = states_[unit].whole;
  whole = context_->allocate(of.own.dtype(), {of.elements}, MemoryTag::other);
  of.groups.shards->all_gather(of.own, whole).wait();
  return whole;
}

}  // namespace viaduct
