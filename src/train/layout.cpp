#include "train/layout.h"

#include <algorithm>

#include "base/error.h"
#include "pipeline/layer_map.h"
#include "pipeline/pipeline_settings.h"

namespace viaduct {

Layout make_layout(const RunConfig& config, const ModelConfig& model) {
  const ParallelConfig& parallel = config.parallel;
  const int tp = parallel.tensor_model_parallel_size, cp = parallel.context_parallel_size,
            pp = parallel.pipeline_model_parallel_size, ranks = config.dist.ranks;
  VIADUCT_CHECK(ConfigError, ranks % (tp * cp * pp) == 0,
                "dist.ranks: {} is not divisible by tp · cp · pp = {} · {} · {}", ranks, tp, cp,
                pp);
  Layout layout{.mesh = Mesh({tp, cp, 1, ranks / (tp * cp * pp), pp}, config.dist.mesh_order())};
  layout.group_sizes.optimizer_instances = config.ddp.num_distributed_optimizer_instances;
  layout.group_sizes.hierarchical_context_parallel =
      config.context_parallel.hierarchical_context_parallel_sizes.value_or(std::vector<int>{});
  layout.group_sizes.kv_replicas = std::max<int>(1, tp / static_cast<int>(model.kv_heads));
  layout.layer_map = layer_map(config.pipeline, model.layers, pp);
  layout.sequence_parallel = tp > 1 && parallel.sequence_parallel.value_or(false);
  layout.vocabulary_multiple = tp > 1 ? config.model.make_vocab_size_divisible_by : 1;
  layout.ddp = config.ddp;
  layout.schedule = schedule_settings(config.pipeline, layout.virtual_stages());
  layout.executor = executor_settings(config.pipeline);
  return layout;
}

Layout single_rank_layout(const ModelConfig& model) {
  return {.mesh = Mesh({1, 1, 1, 1, 1}), .layer_map = layer_map(LayerMapSettings{model.layers})};
}

ModelPlace model_place(const Layout& layout, GlobalRank rank) {
  ModelPlace place;
  place.tp = layout.size(Axis::tp);
  place.tp_rank = layout.mesh.coordinate(rank, Axis::tp).value;
  place.sequence_parallel = layout.sequence_parallel;
  place.vocabulary_multiple = layout.vocabulary_multiple;
  place.pp = layout.size(Axis::pp);
  place.pp_rank = layout.mesh.coordinate(rank, Axis::pp).value;
  place.chunks = chunks_of_stage(layout.layer_map, place.pp, place.pp_rank);
  return place;
}

}  // namespace viaduct
