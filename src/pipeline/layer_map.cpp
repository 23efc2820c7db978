#include "pipeline/layer_map.h"

#include "base/error.h"

namespace viaduct {

std::vector<ChunkLayers> layer_map(const LayerMapSettings& settings) {
  const int64_t stages = int64_t{settings.pp} * settings.virtual_stages;
  VIADUCT_CHECK(ConfigError, settings.layers % stages == 0,
                "model.num_layers: {} is not divisible by pipeline_model_parallel_size · virtual "
                "stages = {} · {}",
                settings.layers, settings.pp, settings.virtual_stages);
  std::vector<ChunkLayers> map;
  const int64_t blocks = settings.layers / stages;
  for (int64_t i = 0; i < stages; ++i) map.push_back({i == 0, i * blocks, blocks, i + 1 == stages});
  return map;
}

std::vector<ChunkLayers> chunks_of_stage(const std::vector<ChunkLayers>& map, int pp, int pp_rank) {
  std::vector<ChunkLayers> chunks;
  for (size_t i = static_cast<size_t>(pp_rank); i < map.size(); i += static_cast<size_t>(pp))
    chunks.push_back(map[i]);
  return chunks;
}

}  // namespace viaduct
