#include "model/frozen_segments.h"

#include <ranges>

#include "model/segment_edges.h"

namespace viaduct {

Edge FrozenSegments::inputs(const RankContext& context, const Batch& batch) const {
  Edge edge;
  for (const auto& segment : std::views::reverse(layer_.segments))
    edge = edge_before(layer_, *segment, context, batch, edge);
  for (EdgeTensor& tensor : edge) tensor.needs_gradient = false;
  return edge;
}

TensorSet FrozenSegments::forward(RankContext& context, const Batch& batch, const TensorSet& in,
                                  SavedStore&) {
  TensorSet set = in;
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
