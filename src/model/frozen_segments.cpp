#include "model/frozen_segments.h"

#include "model/segment_edges.h"

namespace viaduct {

TensorSet FrozenSegments::forward(RankContext& context, const Batch& batch, const TensorSet&,
                                  SavedStore&) {
  TensorSet set;
  SavedStore nothing(false);
  for (const auto& segment : layer_.segments)
    set = forward_through(layer_, *segment, context, batch, set, nothing);
  return set;
}

std::vector<const Parameter*> FrozenSegments::parameters() const {
  std::vector<const Parameter*> list;
  for (const auto& segment : layer_.segments) {
    const auto own = segment->parameters();
    list.insert(list.end(), own.begin(), own.end());
  }
  return list;
}

}  // namespace viaduct
