#include "pipeline/layer_map.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "config/nearest_valid.h"
#include "pipeline/stage_layout.h"

namespace viaduct {
namespace {

/// Chunks in model order of these sizes.
std::vector<ChunkLayers> chunks_of(const std::vector<int64_t>& sizes) {
  std::vector<ChunkLayers> map;
  int64_t block = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    map.push_back({i == 0, block, sizes[i], i + 1 == sizes.size()});
    block += sizes[i];
  }
  return map;
}

std::vector<int64_t> even_sizes(const LayerMapSettings& s) {
  const int64_t stages = int64_t{s.pp} * s.virtual_stages;
  const int64_t extra = (s.account_for_embedding ? 1 : 0) + (s.account_for_loss ? 1 : 0);
  const auto divides = [&](int64_t layers) {
    return (layers + extra) % stages == 0 && layers + extra >= stages;
  };
  VIADUCT_CHECK(ConfigError, divides(s.layers),
                "model.num_layers: {}{} is not divisible by pipeline_model_parallel_size · virtual "
                "stages = {} · {}; nearest: {}",
                s.layers, extra == 0 ? "" : fmt::format(" + {} (embedding, loss)", extra), s.pp,
                s.virtual_stages, nearest_valid(s.layers, divides));
  std::vector<int64_t> sizes(static_cast<size_t>(stages), (s.layers + extra) / stages);
  if (s.account_for_embedding) --sizes.front();
  if (s.account_for_loss) --sizes.back();
  return sizes;
}

/// Layers of one end of the pipeline for each chunk.
int64_t end_chunk(const char* name, int64_t layers, int virtual_stages) {
  VIADUCT_CHECK(ConfigError, layers > 0 && layers % virtual_stages == 0,
                "model.{}: {} is not a positive multiple of the virtual stages {}; nearest: {}",
                name, layers, virtual_stages, nearest_multiple(layers, virtual_stages));
  return layers / virtual_stages;
}

std::vector<int64_t> sizes_with_ends(const LayerMapSettings& s) {
  VIADUCT_CHECK(ConfigError, !s.account_for_embedding && !s.account_for_loss,
                "model.account_for_embedding/loss_in_pipeline_split: not together with "
                "num_layers_in_first/last_pipeline_stage");
  const int64_t given = s.first_stage.value_or(0) + s.last_stage.value_or(0);
  const int64_t others = s.pp - (s.first_stage ? 1 : 0) - (s.last_stage ? 1 : 0);
  VIADUCT_CHECK(ConfigError, s.pp >= 2,
                "model.num_layers_in_first/last_pipeline_stage: needs pipeline_model_parallel_size "
                "of at least 2, found {}",
                s.pp);
  const int64_t step = others * s.virtual_stages, rest = s.layers - given;
  const auto fits = [&](int64_t layers) {
    return others == 0 ? layers == given : layers > given && (layers - given) % step == 0;
  };
  VIADUCT_CHECK(ConfigError, fits(s.layers),
                "model.num_layers: {} − {} of num_layers_in_first/last_pipeline_stage = {} for the "
                "other {} of {}; nearest: {}",
                s.layers, counted(given, "layer"), rest, counted(others, "stage"),
                counted(s.virtual_stages, "chunk"), nearest_valid(s.layers, fits));
  std::vector<int64_t> sizes;
  for (int chunk = 0; chunk < s.virtual_stages; ++chunk) {
    for (int stage = 0; stage < s.pp; ++stage) {
      if (stage == 0 && s.first_stage) {
        sizes.push_back(
            end_chunk("num_layers_in_first_pipeline_stage", *s.first_stage, s.virtual_stages));
      } else if (stage == s.pp - 1 && s.last_stage) {
        sizes.push_back(
            end_chunk("num_layers_in_last_pipeline_stage", *s.last_stage, s.virtual_stages));
      } else {
        sizes.push_back(rest / step);
      }
    }
  }
  return sizes;
}

/// `layers` blocks that `stages` divides, in the first chunk or, of an equal number each, in chunks
/// of their own.
std::vector<ChunkLayers> in_front(std::vector<ChunkLayers> map, int64_t layers, int stages,
                                  bool of_images) {
  if (stages == 0) {
    map.front().encoder = {true, 0, layers, true, of_images};
    return map;
  }
  const int64_t each = layers / stages;
  std::vector<ChunkLayers> both;
  for (int64_t i = 0; i < stages; ++i)
    both.push_back({false, 0, 0, false, {i == 0, i * each, each, i + 1 == stages, of_images}});
  both.insert(both.end(), map.begin(), map.end());
  return both;
}

}  // namespace

std::vector<ChunkLayers> layer_map(const LayerMapSettings& s) {
  const bool ends = s.first_stage || s.last_stage;
  return chunks_of(ends ? sizes_with_ends(s) : even_sizes(s));
}

std::vector<ChunkLayers> layer_map(const PipelineConfig& config, int64_t layers, int pp,
                                   std::optional<int64_t> mtp) {
  if (config.pipeline_model_parallel_layout) {
    Problems problems;
    auto map =
        parse_stage_layout(*config.pipeline_model_parallel_layout, layers, pp, problems, mtp);
    problems.throw_if_any();
    return map;
  }
  LayerMapSettings s{layers, pp, config.virtual_stages()};
  s.account_for_embedding = config.account_for_embedding_in_pipeline_split;
  s.account_for_loss = config.account_for_loss_in_pipeline_split;
  if (config.num_layers_in_first_pipeline_stage)
    s.first_stage = *config.num_layers_in_first_pipeline_stage;
  if (config.num_layers_in_last_pipeline_stage)
    s.last_stage = *config.num_layers_in_last_pipeline_stage;
  return layer_map(s);
}

std::vector<ChunkLayers> with_encoder(std::vector<ChunkLayers> map, int64_t layers, int stages) {
  if (layers == 0) return map;
  VIADUCT_CHECK(ConfigError, stages == 0 || layers % stages == 0,
                "model.encoder_num_layers: {} is not divisible by "
                "encoder_pipeline_model_parallel_size = {}; nearest: {}",
                layers, stages, nearest_multiple(layers, stages));
  return in_front(std::move(map), layers, stages, false);
}

std::vector<ChunkLayers> with_tower(std::vector<ChunkLayers> map, int64_t layers, int stages) {
  const int64_t most = std::max<int64_t>(1, layers);  // patches and projector are on one together
  VIADUCT_CHECK(ConfigError, stages == 0 || most % stages == 0,
                "model.encoder_pipeline_model_parallel_size: {} does not divide the {} of the "
                "vision tower that {} read; nearest: {}",
                stages, counted(layers, "block"), layers == 1 ? "is" : "are",
                nearest_divisor(stages, most));
  return in_front(std::move(map), layers, stages, true);
}

std::vector<int> stages_with(const std::vector<ChunkLayers>& map, const StageOrder& order,
                             FunctionRef<bool(const ChunkLayers&)> has) {
  std::set<int> stages;
  for (size_t i = 0; i < map.size(); ++i)
    if (has(map[i])) stages.insert(order.rank_of(static_cast<int64_t>(i)));
  return {stages.begin(), stages.end()};
}

std::vector<ChunkLayers> chunks_of_stage(const std::vector<ChunkLayers>& map,
                                         const StageOrder& order, int pp_rank) {
  std::vector<ChunkLayers> chunks;
  for (size_t i = 0; i < map.size(); ++i)
    if (order.rank_of(static_cast<int64_t>(i)) == pp_rank) chunks.push_back(map[i]);
  return chunks;
}

}  // namespace viaduct
