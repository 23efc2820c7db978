#include "sharding/gradient_units.h"

#include "ops/elementwise.h"

namespace viaduct {

GradientUnits::GradientUnits(std::vector<Unit> units, ReduceOp op, bool overlap,
                             OffloadedBlocks* blocks)
    : units_(std::move(units)),
      states_(units_.size()),
      op_(op),
      overlap_(overlap),
      blocks_(blocks) {}

std::optional<size_t> GradientUnits::block_of(size_t unit) const {
  return blocks_ == nullptr ? std::nullopt : blocks_->block_of(units_[unit].shard);
}

Tensor GradientUnits::shard(size_t unit, bool overwrites) {
  const auto block = block_of(unit);
  if (!block) return units_[unit].shard;
  if (overwrites) {
    blocks_->begin(*block);
  } else {
    blocks_->require(*block);
  }
  return blocks_->present(units_[unit].shard);
}

Tensor GradientUnits::own(size_t unit) const {
  const Tensor& own = units_[unit].own;
  return blocks_ == nullptr ? own : blocks_->present(own);
}

void GradientUnits::shard_changed(size_t unit) {
  const auto block = block_of(unit);
  if (!block) return;
  if (leaving_ != block) stored();
  blocks_->leave(*block, true);
  leaving_ = block;
}

void GradientUnits::stored() {
  if (leaving_) blocks_->settle(*leaving_);
  leaving_.reset();
}

void GradientUnits::begin_step(OpContext& context) {
  context_.emplace(context);
  for (State& state : states_) state = {};
}

const Tensor& GradientUnits::gradients(size_t unit) {
  State& state = states_[unit];
  if (state.whole) return state.whole;
  const Unit& of = units_[unit];
  state.whole = context_->allocate(of.message, {of.elements}, MemoryTag::main_gradients);
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
  sending.sum = sending.first && of.message == of.shard.dtype()
                    ? shard(unit, true)
                    : context_->allocate(of.message, of.shard.shape(), MemoryTag::main_gradients);
  sending.handle = of.groups.shards->reduce_scatter(sending.whole, sending.sum, op_);
  state.whole = Tensor();
  state.summed = true;
  if (!overlap_) settle();
}

void GradientUnits::settle() {
  if (!sending_) return;
  sending_->handle.wait();
  const size_t unit = sending_->unit;
  const bool direct = sending_->first && units_[unit].message == units_[unit].shard.dtype();
  if (!direct) {
    copy(*context_, {sending_->sum, shard(unit, sending_->first),
                     sending_->first ? WriteMode::assign : WriteMode::accumulate});
  }
  sending_.reset();
  shard_changed(unit);
}

std::vector<bool> GradientUnits::summed() const {
  std::vector<bool> list;
  for (const State& state : states_) list.push_back(state.summed);
  return list;
}

void GradientUnits::summed_by_graph(const std::vector<bool>& units) {
  for (size_t i = 0; i < states_.size(); ++i) states_[i].summed = units.at(i);
}

void GradientUnits::finish() {
  settle();
  std::vector<CommHandle> handles;
  for (size_t i = 0; i < units_.size(); ++i) {
    const Unit& of = units_[i];
    if (!of.shard) continue;  // frozen
    Communicator& copies = *of.groups.copies;
    const bool elsewhere = block_of(i).has_value();
    if (elsewhere && states_[i].summed && copies.size() == 1) continue;
    const Tensor sums = shard(i, !states_[i].summed);
    if (!states_[i].summed) fill(*context_, {sums, 0});
    handles.push_back(of.own.elements() == of.shard.elements()
                          ? copies.all_reduce(sums, op_)
                          : copies.reduce_scatter(sums, own(i), op_));
    if (!elsewhere) continue;
    handles.back().wait();  // one at a time
    shard_changed(i);
  }
  for (CommHandle& handle : handles) handle.wait();
  stored();
}

const Tensor& GradientUnits::gather(size_t unit) {
  const Unit& of = units_[unit];
  Tensor& whole = states_[unit].whole;
  whole = context_->allocate(of.shard.dtype(), {of.elements}, MemoryTag::other);
  const Tensor sums = shard(unit, false);
  if (of.own.elements() != of.shard.elements())
    of.groups.copies->all_gather(own(unit), sums).wait();
  of.groups.shards->all_gather(sums, whole).wait();
  if (const auto block = block_of(unit)) blocks_->leave(*block, false);
  return whole;
}

}  // namespace viaduct
