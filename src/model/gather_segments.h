#pragma once
// Which weights a walk needs, where they are shards: before a segment its units are gathered, and
// those of later segments ahead of their use; after it, units that no planned segment uses are
// released.

#include <map>
#include <vector>

#include "model/segment_hooks.h"
#include "sharding/parameter_store.h"

namespace viaduct {

class GatherSegments final : public SegmentHooks {
 public:
  /// The store, which outlives this, has shards of weights. `turn`: a segment whose forward, the
  /// last of a walk, is followed by its backward, the first of the next walk; null: there is none.
  /// Its units stay between the two.
  explicit GatherSegments(const ParameterStore& store, const Segment* turn = nullptr)
      : store_(store), weights_(*store.sharded_weights()), turn_(turn) {}

  void before(const SegmentEvent& event) override;
  void after(const SegmentEvent& event, const TensorSet& out) override;

 private:
  /// Gathers what `first` needs, and ahead of it as much of `rest` as they accept.
  GatherPlan plan(const ComingSegment& first, std::span<const ComingSegment> rest);
  const std::vector<size_t>& units(const ComingSegment& segment);

  const ParameterStore& store_;
  ShardedWeights& weights_;
  const Segment* turn_;
  struct Units {
    std::vector<size_t> forward, backward;
  };
  std::map<const Segment*, Units> units_;  // of the segments so far
};

}  // namespace viaduct
