#pragma once
// The distribution of a run over its ranks: the mesh, the layers of each stage, and the order of
// its work. One value for the whole run; `model_place` (model/model_place.h) derives one rank's
// part.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "comm/mesh.h"
#include "pipeline/chunk_layers.h"
#include "pipeline/executor.h"
#include "pipeline/schedule.h"

namespace viaduct {

struct Parallelism {
  Mesh mesh = Mesh({1, 1, 1, 1, 1});
  /// All virtual stages, in model order; empty: all layers on one stage.
  std::vector<ChunkLayers> layer_map;
  /// Rows of the vocabulary tables are padded to a multiple of this times tp.
  int64_t vocabulary_multiple = 1;
  /// Order of work and messages of a pipeline, with the chunks of its stages; each step sets how
  /// many micro-batches there are, and pp.
  ScheduleSettings schedule;
  ExecutorSettings executor;
  /// Format of messages between stages; none: that of the residual stream.
  std::optional<DType> message_format;

  int size(Axis axis) const { return mesh.size(axis); }
  StageOrder stage_order() const {
    StageOrder order = schedule.order();
    order.pp = size(Axis::pp);
    return order;
  }
  /// The pipeline rank that has the head, and the loss.
  int head_stage() const {
    return stage_order().rank_of(static_cast<int64_t>(std::max<size_t>(1, layer_map.size())) - 1);
  }
};

}  // namespace viaduct
