#pragma once
// Which virtual stage has which layers. Virtual stage i is chunk i / pp of pipeline rank i % pp,
// and virtual stages hold the model's layers in order.

#include <cstdint>
#include <vector>

#include "pipeline/chunk_layers.h"

namespace viaduct {

struct LayerMapSettings {
  int64_t layers = 0;  // transformer blocks
  int pp = 1;
  int virtual_stages = 1;  // chunks of a rank
};

/// pp · virtual_stages chunks in model order. ConfigError, naming the numbers, if the layers do not
/// divide.
std::vector<ChunkLayers> layer_map(const LayerMapSettings& settings);

/// The chunks of one pipeline rank, in model order.
std::vector<ChunkLayers> chunks_of_stage(const std::vector<ChunkLayers>& map, int pp, int pp_rank);

}  // namespace viaduct
