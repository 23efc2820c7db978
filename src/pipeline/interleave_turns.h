#pragma once
// Forwards and backwards that a schedule combines (Action::combined), as alternating ranges of
// segments: while an exchange of one micro-batch is under way, the other one computes.

#include <vector>

#include "pipeline/action.h"

namespace viaduct {

/// Where walks through a chunk are cut.
struct ChunkTurns {
  /// Segments that begin a range, in ascending order: before them an exchange is under way.
  std::vector<int> places;
  bool ends_with_head = false;
};

/// `actions` of a stage with combined pairs cut into ranges, in the order
///   backward until its first exchange is under way, forward until its first exchange is under way,
///   backward until its second one …
/// and the rest of the longer one at the end. `turns`: by chunk (Model::turns). `delays_weights`:
/// the backward of each range runs in two halves, the weight half after the exchange at the range's
/// end has begun; so do backwards that are not combined. The head has both halves at once: its
/// weight half would keep the gradient of all logits.
ActionList interleave_turns(const ActionList& actions, const std::vector<ChunkTurns>& turns,
                            bool delays_weights);

}  // namespace viaduct
