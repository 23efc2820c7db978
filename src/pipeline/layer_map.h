#pragma once
// The layers of each virtual stage. Virtual stages hold the model's layers in order; which rank has
// which of them: pipeline/stage_placement.h.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/function_ref.h"
#include "pipeline/chunk_layers.h"
#include "pipeline/pipeline_config.h"
#include "pipeline/stage_placement.h"

namespace viaduct {

struct LayerMapSettings {
  int64_t layers = 0;  // transformer blocks
  int pp = 1;
  int virtual_stages = 1;  // chunks of a rank
  /// The embedding (the loss) counts as a layer of the first (last) virtual stage.
  bool account_for_embedding = false, account_for_loss = false;
  /// Layers of the first and last rank, all chunks together; the other ranks share the rest evenly.
  std::optional<int64_t> first_stage, last_stage;
};

/// pp · virtual_stages chunks in model order. ConfigError, naming the numbers and the nearest valid
/// one, if the layers do not divide, or if the ends are given twice.
std::vector<ChunkLayers> layer_map(const LayerMapSettings& settings);

/// The layer map of a configuration: from its layout text, or from the numbers above. `mtp`: layers
/// of multi-token prediction, which are with the loss. ConfigError with all problems.
std::vector<ChunkLayers> layer_map(const PipelineConfig& config, int64_t layers, int pp,
                                   std::optional<int64_t> mtp = {});

/// The map of a decoder with an encoder of `layers` blocks in front: in the first chunk, or over
/// `stages` chunks of their own. ConfigError, naming the nearest number, if the stages do not
/// divide the layers.
std::vector<ChunkLayers> with_encoder(std::vector<ChunkLayers> map, int64_t layers, int stages);

/// The same with a vision tower, of which `layers` blocks are read, maybe none.
std::vector<ChunkLayers> with_tower(std::vector<ChunkLayers> map, int64_t layers, int stages);

/// The pipeline ranks, ascending, that have a chunk of the map for which `has` holds.
std::vector<int> stages_with(const std::vector<ChunkLayers>& map, const StageOrder& order,
                             FunctionRef<bool(const ChunkLayers&)> has);

/// The chunks of one pipeline rank, in model order.
std::vector<ChunkLayers> chunks_of_stage(const std::vector<ChunkLayers>& map,
                                         const StageOrder& order, int pp_rank);

}  // namespace viaduct
