#include "train/layout.h"

#include <algorithm>

#include "base/error.h"
#include "pipeline/layer_map.h"
#include "pipeline/pipeline_settings.h"
#include "train/parallel_settings.h"

namespace viaduct {

Layout make_layout(const RunConfig& config, const ModelConfig& model) {
  const ParallelConfig& parallel = config.parallel;
  const int tp = parallel.tensor_model_parallel_size, pp = parallel.pipeline_model_parallel_size;
  const GroupSizes parts{
      // Replicated state is an instance a rank.
      .optimizer_instances = config.ddp.use_distributed_optimizer
                                 ? config.ddp.num_distributed_optimizer_instances
                                 : config.dist.ranks / (tp * pp),
      .hierarchical_context_parallel =
          config.context_parallel.hierarchical_context_parallel_sizes.value_or(std::vector<int>{}),
      .kv_replicas = std::max<int>(1, tp / static_cast<int>(model.kv_heads))};
  Layout layout{.mesh = Mesh::make({.ranks = config.dist.ranks,
                                    .tp = tp,
                                    .cp = parallel.context_parallel_size,
                                    .pp = pp,
                                    .ep = parallel.expert_model_parallel_size,
                                    .etp = parallel.expert_tensor()},
                                   config.dist.mesh_order(), parts)};
  layout.layer_map = layer_map(config.pipeline, model.layers, pp);
  for (int64_t block = 0; block < model.layers; ++block)
    layout.context_exchange.push_back(config.context_parallel.exchange(block));
  layout.sequence_parallel = tp > 1 && parallel.sequence_parallel.value_or(false);
  if (layout.sequence_parallel) {
    Problems problems;
    layout.overlap = resolve_gemm_overlap(config.tensor_overlap,
                                          overlap_conditions(config, model.hidden), problems);
    problems.throw_if_any();
  }
  layout.vocabulary_multiple = tp > 1 ? config.model.make_vocab_size_divisible_by : 1;
  layout.fusions = config.fusion.fusions();
  layout.recompute_logits = config.fusion.recompute_logits.value();
  layout.saved_policy = saved_policy(config.recompute, layout.layer_map);
  layout.packed_weights = config.packing.packed_weights.value();
  layout.calculate_per_token_loss = config.model.calculate_per_token_loss;
  layout.ddp = config.ddp;
  layout.schedule = schedule_settings(config.pipeline, layout.virtual_stages());
  layout.executor = executor_settings(config.pipeline);
  layout.message_format = message_format(config.pipeline);
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
  place.context_exchange = layout.context_exchange;
  place.vocabulary_multiple = layout.vocabulary_multiple;
  place.pp = layout.size(Axis::pp);
  place.pp_rank = layout.mesh.coordinate(rank, Axis::pp).value;
  place.chunks = chunks_of_stage(layout.layer_map, place.pp, place.pp_rank);
  return place;
}

}  // namespace viaduct
