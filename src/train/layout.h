#pragma once
// How a run's ranks share the work: the mesh with its groups, which layers a stage has.
// One value for the whole run; `model_place` is one rank's view of it.

#include "comm/parallel_groups.h"
#include "model/model_config.h"
#include "model/model_place.h"
#include "nn/fusions.h"
#include "nn/gemm_overlap.h"
#include "nn/saved_policy.h"
#include "pipeline/executor.h"
#include "pipeline/schedule.h"
#include "sharding/ddp_config.h"
#include "train/run_config.h"

namespace viaduct {

struct Layout {
  Mesh mesh;
  std::vector<ChunkLayers> layer_map;  // pp · virtual stages, in model order
  bool sequence_parallel = false;
  std::vector<ContextExchange> context_exchange;  // by block
  GemmOverlapTable overlap;
  int64_t vocabulary_multiple = 1;
  Fusions fusions;
  bool recompute_logits = true;
  SavedPolicy saved_policy;
  bool packed_weights = false;
  bool calculate_per_token_loss = true;  // how the losses of ranks and micro-batches are joined
  DdpConfig ddp;
  ScheduleSettings schedule;  // but for the number of micro-batches
  ExecutorSettings executor;
  std::optional<DType> message_format;  // between stages; none: that of the residual stream

  int size(Axis axis) const { return mesh.size(axis); }
  int virtual_stages() const { return static_cast<int>(layer_map.size()) / size(Axis::pp); }
};

/// The layout that a resolved configuration asks for. ConfigError, naming the numbers, if the sizes
/// do not fit each other or the model.
Layout make_layout(const RunConfig& config, const ModelConfig& model);

/// The layout of a run of one rank.
Layout single_rank_layout(const ModelConfig& model);

/// The part of the model that `rank` holds.
ModelPlace model_place(const Layout& layout, GlobalRank rank);

}  // namespace viaduct
