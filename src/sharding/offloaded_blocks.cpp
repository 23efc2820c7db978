#include "sharding/offloaded_blocks.h"

#include "base/error.h"

namespace viaduct {
namespace {

constexpr int64_t kAlignment = 64;

}  // namespace

OffloadedBlocks::~OffloadedBlocks() {
  for (const Block& block : blocks_)
    if (block.id >= 0) memory_.drop(block.id);
}

std::vector<Tensor> OffloadedBlocks::add(MemoryTag tag,
                                         const std::vector<std::pair<DType, int64_t>>& sizes) {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
  for (const auto& [format, elements] : sizes) {
    offsets.push_back(bytes);
    bytes += (elements * dtype_bytes(format) + kAlignment - 1) / kAlignment * kAlignment;
  }
  VIADUCT_CHECK(ShapeError, bytes > 0, "second memory: an empty block");
  const auto placeholder = std::make_shared<Storage>(nullptr, bytes, [](Storage&) {});
  std::vector<Tensor> views;
  for (size_t i = 0; i < sizes.size(); ++i)
    views.emplace_back(placeholder, sizes[i].first, Shape{sizes[i].second}, offsets[i]);
  by_placeholder_[placeholder.get()] = blocks_.size();
  blocks_.push_back({.tag = tag, .placeholder = placeholder});
  return views;
}

std::optional<size_t> OffloadedBlocks::block_of(const Tensor& tensor) const {
  const auto found = by_placeholder_.find(tensor.storage().get());
  if (found == by_placeholder_.end()) return std::nullopt;
  return found->second;
}

Tensor OffloadedBlocks::present(const Tensor& tensor) const {
  const auto block = block_of(tensor);
  if (!block) return tensor;
  VIADUCT_CHECK(ShapeError, here(*block),
                "second memory: {} is used while its block is not on the device", describe(tensor));
  return tensor.in_storage(blocks_[*block].memory.storage());
}

void OffloadedBlocks::begin(size_t number) {
  Block& block = blocks_[number];
  if (block.memory) return require(number);
  block.memory = device_.allocate(DType::u8, {block.placeholder->bytes()}, block.tag);
  block.state = State::here;
}

void OffloadedBlocks::fetch(size_t number) {
  Block& block = blocks_[number];
  if (block.memory || block.id < 0) return;
  block.memory = device_.allocate(DType::u8, {block.placeholder->bytes()}, block.tag);
  block.state = State::coming;
  memory_.fetch(block.id, block.memory);
}

void OffloadedBlocks::require(size_t number) {
  Block& block = blocks_[number];
  fetch(number);
  if (block.state == State::coming) memory_.finish_fetch(block.id);
  // Nothing may read or write a block until its copy out is complete.
  if (block.state == State::going) memory_.finish_put(block.id);
  if (block.memory) {
    block.state = State::here;
  } else {
    begin(number);
  }
}

void OffloadedBlocks::leave(size_t number, bool changed) {
  Block& block = blocks_[number];
  VIADUCT_CHECK(ShapeError, here(number),
                "second memory: a block that is not on the device cannot be offloaded");
  if (!changed) {
    block.memory = Tensor();
    block.state = State::away;
    return;
  }
  if (block.id < 0) {
    block.id = memory_.put(block.memory);
  } else {
    memory_.put_again(block.id, block.memory);
  }
  block.state = State::going;
}

void OffloadedBlocks::settle(size_t number) {
  Block& block = blocks_[number];
  if (block.state != State::going) return;
  memory_.finish_put(block.id);
  block.memory = Tensor();
  block.state = State::away;
}

BlockCursor::~BlockCursor() {
  if (block_) blocks_->leave(*block_, false);
}

Tensor BlockCursor::at(const Tensor& tensor) {
  const auto block = blocks_ == nullptr ? std::nullopt : blocks_->block_of(tensor);
  if (!block) return tensor;
  if (block_ != block) {
    finish();
    blocks_->require(*block);
    block_ = block;
  }
  return blocks_->present(tensor);
}

void BlockCursor::finish() {
  if (!block_) return;
  const size_t block = *block_;
  block_.reset();
  const bool changes = access_ == Access::change;
  blocks_->leave(block, changes);
  if (changes) blocks_->settle(block);
}

}  // namespace viaduct
