#pragma once
// Consecutive layers of a model, each a list of segments: what an action of a pipeline schedule
// runs.

#include <functional>
#include <vector>

#include "nn/head.h"
#include "nn/segment.h"
#include "pipeline/chunk_layers.h"
#include "sharding/parameter_use.h"

namespace viaduct {

struct ModelChunk {
  ChunkLayers holds;
  std::vector<Layer> layers;
  HeadSegment* head = nullptr;  // the last layer's segment, where the chunk has it
  /// The outputs of this chunk that later chunks read, including tensors that bypass some of them;
  /// none: the model ends with it. The builder of the chunks sets it, because a rank does not hold
  /// the segments of others.
  std::function<Edge(const RankContext&, const Batch&)> after = {};

  /// Every parameter once, in order of first use in the forward.
  std::vector<const Parameter*> parameters() const;
  /// The same, as often as segments use it: each use is one contribution to its gradient.
  std::vector<ParameterUse> uses() const;
};

}  // namespace viaduct
