#pragma once
// Brings the parts of runs that live in the second memory to the device as a loop reaches them.

#include "sharding/offloaded_blocks.h"
#include "sharding/shard_run.h"

namespace viaduct {

class RunCursor {
 public:
  using Access = BlockCursor::Access;
  /// `blocks` null: everything is on the device. `values`: what happens to masters and optimizer
  /// states; gradients are read.
  RunCursor(OffloadedBlocks* blocks, Access values, Access weights)
      : values_(blocks, values), weights_(blocks, weights), gradients_(blocks, Access::read) {}
  RunCursor(OffloadedBlocks* blocks, Access all) : RunCursor(blocks, all, all) {}

  /// The run with its master and its weight, until the next one is requested.
  ShardRun at(const ShardRun& run) {
    ShardRun here = run;
    here.master = values_.at(run.master);
    if (run.master_scales) here.master_scales = values_.at(run.master_scales);
    const bool one = run.weight.storage() == run.master.storage();
    here.weight = one ? values_.at(run.weight) : weights_.at(run.weight);
    return here;
  }
  /// A master or an optimizer state in its stored format, or gradients.
  StateValues at(const StateValues& state) {
    return {values_.at(state.values), state.scales ? values_.at(state.scales) : Tensor(),
            state.weights ? weights_.at(state.weights) : Tensor()};
  }
  Tensor gradient(const ShardRun& run) { return gradients_.at(run.gradient); }
  /// Ends the use of the last ones; changes are lost without it.
  void finish() {
    values_.finish();
    weights_.finish();
    gradients_.finish();
  }

 private:
  BlockCursor values_, weights_, gradients_;
};

}  // namespace viaduct
