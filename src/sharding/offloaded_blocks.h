#pragma once
// Tensors that live in a second memory and are on the device while they are used: optimizer states
// and masters, shards of weights and gradients. Tensors that are used together are a block: one
// allocation and one copy. Memory is allocated and freed at these calls of the program, never when
// a copy completes.

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/device.h"
#include "device/second_memory.h"
#include "tensor/state_formats.h"

namespace viaduct {

class OffloadedBlocks {
 public:
  /// Both outlive this.
  OffloadedBlocks(Device& device, SecondMemory& memory) : device_(device), memory_(memory) {}
  ~OffloadedBlocks();
  OffloadedBlocks(const OffloadedBlocks&) = delete;
  OffloadedBlocks& operator=(const OffloadedBlocks&) = delete;

  /// A block of flat tensors of these formats and numbers of elements. Returns the tensors without
  /// memory: `present` gives them with memory. Nothing is stored yet.
  std::vector<Tensor> add(MemoryTag tag, const std::vector<std::pair<DType, int64_t>>& sizes);

  /// The block that the tensor is a view of; nothing for a tensor that is always on the device.
  std::optional<size_t> block_of(const Tensor& tensor) const;
  /// The view with memory; the tensor itself where it is always on the device. ShapeError unless
  /// its block is on the device.
  Tensor present(const Tensor& tensor) const;

  /// Allocates memory for values that will all be written: the stored ones are not copied.
  void begin(size_t block);
  /// Allocates memory and starts to copy the stored values into it. Does nothing for a block that
  /// has memory.
  void fetch(size_t block);
  /// The block is on the device from now on: fetched, unless it has memory. If nothing was stored,
  /// the values are undefined.
  void require(size_t block);
  /// Ends its use. `changed`: starts to copy it to the second memory, and `settle` frees
  /// its memory; otherwise it is freed at once.
  void leave(size_t block, bool changed);
  /// Waits for that copy and frees the memory; does nothing if there is none.
  void settle(size_t block);
  bool here(size_t block) const { return blocks_[block].state == State::here; }

 private:
  enum class State { away, coming, here, going };
  struct Block {
    MemoryTag tag = MemoryTag::other;
    std::shared_ptr<Storage> placeholder;  // of the views; as large as the memory
    Tensor memory;                         // undefined while the block is not on the device
    SecondMemory::Id id = -1;              // −1: nothing is stored
    State state = State::away;
  };

  Device& device_;
  SecondMemory& memory_;
  std::vector<Block> blocks_;
  std::unordered_map<const Storage*, size_t> by_placeholder_;
};

/// Fetches blocks as a loop reaches their tensors, one block at a time.
class BlockCursor {
 public:
  enum class Access { read, change };
  /// `blocks` null: all tensors are on the device.
  BlockCursor(OffloadedBlocks* blocks, Access access) : blocks_(blocks), access_(access) {}
  /// Without `finish`, changes of the last block are lost.
  ~BlockCursor();
  BlockCursor(const BlockCursor&) = delete;
  BlockCursor& operator=(const BlockCursor&) = delete;

  /// The tensor with its memory, until a tensor of another block is requested.
  Tensor at(const Tensor& tensor);
  /// Ends the use of the last block.
  void finish();

 private:
  OffloadedBlocks* blocks_;
  Access access_;
  std::optional<size_t> block_;
};

}  // namespace viaduct
