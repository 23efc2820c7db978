#pragma once
// Main gradients that are shards: the gradients of a unit (a bucket of consecutive segments) are
// whole from the first contribution of a micro-batch to the end of their reduce-scatter, and this
// rank keeps only its shard of the sums.
//
// Order of sums: those of one backward over the ranks, in rank order and in the format of messages,
// then these sums one after the other, in the format of main gradients. With one backward a step
// and one format for both that is the order of GradientReduction, bit for bit.

#include <optional>
#include <vector>

#include "ops/dispatch.h"
#include "sharding/buffer_layout.h"
#include "sharding/offloaded_blocks.h"
#include "sharding/sharding_groups.h"

namespace viaduct {

class GradientUnits {
 public:
  struct Unit {
    Tensor shard;                 // this rank's, flat; perhaps in a second memory
    Tensor own;                   // what of it this rank updates: all, or its part over instances
    DType message = DType::f32;   // format of the whole gradients
    int64_t elements = 0;         // of the whole unit, padding included
    std::vector<Range> added_to;  // elements that are zero before the first contribution
    ShardingGroups groups;
  };
  /// `op` is sum or average. `overlap`: a reduce-scatter runs until the next one is sent, beside
  /// the backward between them; otherwise it is waited for at once. `blocks`: of shards in a second
  /// memory; each is on the device from its reduce-scatter until it is stored, which is waited for
  /// when the next one is.
  GradientUnits(std::vector<Unit> units, ReduceOp op, bool overlap,
                OffloadedBlocks* blocks = nullptr);

  void begin_step(OpContext& context);
  /// Whether the unit's whole gradients are allocated for contributions.
  bool open(size_t unit) const { return states_[unit].whole.defined(); }
  /// The flat gradients of the whole unit, for contributions; allocated now if it was not open.
  const Tensor& gradients(size_t unit);
  /// All contributions of a backward are complete: they are summed over ranks into the shard.
  void send(size_t unit);
  /// Returns when all that was sent is in the shards, and these are in their memory.
  void finish_sent() {
    settle();
    stored();
  }
  /// Which units have sums of this step in their shards.
  std::vector<bool> summed() const;
  /// A graph has made these sums of this step.
  void summed_by_graph(const std::vector<bool>& units);
  /// Returns when the part that this rank updates holds the sums of the step, over instances as
  /// well; zero where nothing was sent. No unit is open.
  void finish();
  /// For tests and dumps, after `finish`, until the next step: all sums of the unit.
  const Tensor& gather(size_t unit);

 private:
  struct State {
    Tensor whole;
    bool summed = false;  // the shard holds sums of this step
  };
  struct Sending {
    Tensor whole, sum;  // the source of the reduction, and the shard or a temporary
    size_t unit = 0;
    bool first = true;  // of the step
    CommHandle handle;
  };
  void settle();
  std::optional<size_t> block_of(size_t unit) const;
  /// The shard on the device; `overwrites`: its old contents are not needed.
  Tensor shard(size_t unit, bool overwrites);
  /// The part of the shard, which is on the device, that this rank updates.
  Tensor own(size_t unit) const;
  /// Stores the shard in its memory; it keeps device memory until then, and the previous one has
  /// none.
  void shard_changed(size_t unit);
  void stored();

  std::vector<Unit> units_;
  std::vector<State> states_;
  ReduceOp op_;
  bool overlap_;
  OffloadedBlocks* blocks_;
  std::optional<size_t> leaving_;     // block of the last shard that was changed
  std::optional<OpContext> context_;  // of the step
  std::optional<Sending> sending_;
};

}  // namespace viaduct
