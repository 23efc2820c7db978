#pragma once
// Main gradients that are shards: the gradients of a unit (a bucket of consecutive segments) are
// whole from the first contribution of a micro-batch to the end of their reduce-scatter, and this
// rank keeps its shard of the sums alone.
//
// Order of sums: those of one backward over the ranks, in rank order, then these sums one after the
// other, in the format of main gradients. With one backward a step that is the order of
// GradientReduction, bit for bit.

#include <optional>
#include <vector>

#include "ops/dispatch.h"
#include "sharding/buffer_layout.h"
#include "sharding/sharding_groups.h"

namespace viaduct {

class GradientUnits {
 public:
  struct Unit {
    Tensor own;                   // this rank's shard, flat
    int64_t elements = 0;         // of the whole unit, padding included
    std::vector<Range> added_to;  // elements that are zero before the first contribution
    ShardingGroups groups;
  };
  /// `op` is sum or average. `overlap`: a reduce-scatter runs until the next one is sent, beside
  /// the backward between them; otherwise it is waited for at once.
  GradientUnits(std::vector<Unit> units, ReduceOp op, bool overlap);

  void begin_step(OpContext& context);
  /// Whether the unit's whole gradients are here for contributions.
  bool open(size_t unit) const { return states_[unit].whole.defined(); }
  /// The flat gradients of the whole unit, for contributions; where it was not open, made now.
  const Tensor& gradients(size_t unit);
  /// All contributions of a backward are here: they are summed over ranks into the own shard.
  void send(size_t unit);
  /// Returns when all own shards hold the sums of the step, over instances too; zero where nothing
  /// was sent. No unit is open.
  void finish();
  /// For tests and dumps, after `finish`, until the next step: all sums of the unit.
  const Tensor& gather(size_t unit);

 private:
  struct State {
    Tensor whole;
    bool summed = false;  // the own shard holds sums of this step
  };
  struct Sending {
    Tensor whole, sum;  // what is reduced, and where to
    size_t unit = 0;
    bool first = true;  // `sum` is the own shard
    CommHandle handle;
  };
  void settle();

  std::vector<Unit> units_;
  std::vector<State> states_;
  ReduceOp op_;
  bool overlap_;
  std::optional<OpContext> context_;  // of the step
  std::optional<Sending> sending_;
};

}  // namespace viaduct
