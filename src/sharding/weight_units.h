#pragma once
// Weights that are shards: the weights of a unit (a bucket of consecutive segments) are whole from
// their gather to the end of their use, and at no other time. Their users say which units come next
// (`GatherPlan`), so that a gather runs beside the compute before it.

#include <vector>

#include "comm/communicator.h"
#include "sharding/offloaded_blocks.h"
#include "tensor/packing.h"

namespace viaduct {

/// Units that are needed at once, then those that are needed soon, in the order of their use.
struct GatherPlan {
  std::vector<size_t> units;
  size_t now = 0;  // the number of them that are needed at once
  int64_t ahead_elements = 0;
  int buffered = 0;  // of the units, those that take one of two buffers

  bool has(size_t unit) const;
};

class WeightUnits {
 public:
  struct Unit {
    Tensor own;            // this rank's shard, flat; perhaps in a second memory
    int64_t elements = 0;  // of the whole unit, padding included
    std::shared_ptr<Communicator> group;

    /// Of the whole unit's tensor.
    int64_t values() const { return elements / elements_per_value(own.dtype()); }
  };
  /// `double_buffer`: units of the most frequent size use two buffers that are allocated here, so
  /// that at most two of them are planned at a time; other units, and all units without it, get
  /// memory from the device. Shards count as stale until `own_written`. `blocks`: of shards in a
  /// second memory,
  /// each of which is on the device from its `fetch_ahead` or `start` to the end of the gather.
  WeightUnits(Device& device, std::vector<Unit> units, bool double_buffer,
              OffloadedBlocks* blocks = nullptr);
  /// Waits for gathers in progress: other ranks write into the weights.
  ~WeightUnits();
  WeightUnits(const WeightUnits&) = delete;
  WeightUnits& operator=(const WeightUnits&) = delete;

  /// Own shards are about to change. ShapeError if a unit is held.
  void invalidate();
  void own_written() { stale_ = false; }
  bool stale() const { return stale_; }

  /// Adds a unit that is needed soon, if the elements of such units then are at most `most`, and if
  /// there is a buffer for it: otherwise the plan is full and does not change.
  bool plan_ahead(GatherPlan& plan, size_t unit, int64_t most) const;
  /// Adds a unit that is needed at once.
  void plan_now(GatherPlan& plan, size_t unit) const;

  /// Starts to fetch the unit's shard from the second memory. False if it is on the device, on its
  /// way, or not needed as the unit is held.
  bool fetch_ahead(size_t unit);
  /// Starts the unit's gather, unless it was started. ShapeError if shards are stale.
  void start(size_t unit);
  /// The flat weights of the unit, valid until `drop`.
  const Tensor& require(size_t unit);
  /// Frees the memory. Does nothing for a unit that is not held.
  void drop(size_t unit);
  /// Whether the whole unit has memory: its gather was started.
  bool held(size_t unit) const { return states_[unit].whole.defined(); }
  bool complete(size_t unit) const { return states_[unit].complete; }
  /// The flat weights of a unit that is complete.
  const Tensor& weights(size_t unit) const { return states_[unit].whole; }
  size_t size() const { return units_.size(); }

 private:
  struct State {
    Tensor whole;
    CommHandle handle;
    bool complete = false;
    bool fetched = false;  // this rank's shard is fetched, or being fetched, from the second memory
    int buffer = -1;
  };
  Tensor memory(size_t unit);
  /// Stores this rank's shard in its memory.
  void give_up_own(size_t unit);

  Device& device_;
  OffloadedBlocks* blocks_;
  std::vector<Unit> units_;
  std::vector<State> states_;
  std::vector<bool> buffered_;  // by unit
  struct Buffer {
    Tensor memory;
    bool taken = false;
  };
  std::vector<Buffer> buffers_;
  bool stale_ = true;
};

}  // namespace viaduct
