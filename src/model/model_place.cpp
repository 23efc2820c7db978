#include "model/model_place.h"

#include <algorithm>

#include "base/error.h"
#include "model/model_config.h"
#include "pipeline/layer_map.h"

namespace viaduct {

ModelPlace model_place(const Parallelism& parallelism, const ParallelGroups& groups) {
  ModelPlace place;
  place.tp = groups.tp().size(), place.tp_rank = groups.tp().rank();
  const Mesh& mesh = parallelism.mesh;
  place.expert_grid = mesh.size(Grid::expert, Axis::ep) > 1 ||
                      mesh.size(Grid::expert, Axis::tp) != mesh.size(Grid::attention, Axis::tp);
  place.etp = place.tp, place.etp_rank = place.tp_rank;
  if (place.expert_grid) {
    const Communicator &ep = *groups.of(GroupKind::ep), &etp = *groups.of(GroupKind::expert_tp);
    place.ep = ep.size(), place.ep_rank = ep.rank();
    place.etp = etp.size(), place.etp_rank = etp.rank();
    place.expert_domains = mesh.size(Grid::expert, Axis::ep_outer);
  }
  place.vocabulary_multiple = parallelism.vocabulary_multiple;
  // Both halves of a model with an encoder read the token table, which then has as many padded rows
  // on the side with fewer tensor ranks as on the other.
  if (mesh.is_split() && !mesh.parts().encoder_stages.empty())
    place.vocabulary_multiple *= std::max(mesh.front_tp(), mesh.size(Axis::tp)) / place.tp;
  place.pp = groups.stages(), place.pp_rank = groups.stage();
  place.split_parts = mesh.split_parts({groups.world().rank()});
  place.embedding_stages = mesh.parts().embedding_stages;
  place.encoder_stages = mesh.parts().encoder_stages;
  place.decoder_stages = mesh.parts().decoder_stages;
  if (!parallelism.layer_map.empty())
    place.chunks = chunks_of_stage(parallelism.layer_map, parallelism.stage_order(), place.pp_rank);
  return place;
}

void check_model_place(const ModelConfig& config, const ModelPlace& place) {
  // Of a vision tower alone other sizes are cut (model/build_vision.h).
  const auto of_tower = [](const ChunkLayers& chunk) {
    return chunk.encoder.of_images && chunk.ends_in_encoder();
  };
  if (!place.chunks.empty() && std::ranges::all_of(place.chunks, of_tower)) return;
  std::vector<std::string> problems;
  const auto divides = [&](const char* field, const char* what, int64_t size) {
    if (size % place.tp != 0)
      problems.push_back(fmt::format("model.{}: {} {} do not divide by {} tensor-parallel ranks",
                                     field, size, what, place.tp));
  };
  VIADUCT_CHECK(ConfigError, place.tp >= 1 && place.tp_rank >= 0 && place.tp_rank < place.tp,
                "model: rank {} of {} tensor-parallel ranks", place.tp_rank, place.tp);
  divides("num_attention_heads", "attention heads", config.heads);
  divides("ffn_hidden_size", "feed-forward features", config.feed_forward);
  const auto cuts_groups = [&](const char* field, int64_t kv_heads) {
    if (kv_heads % place.tp != 0 && place.tp % kv_heads != 0)
      problems.push_back(
          fmt::format("model.{}: {} key-value heads and {} tensor-parallel ranks: "
                      "neither divides the other",
                      field, kv_heads, place.tp));
  };
  cuts_groups("num_query_groups", config.kv_heads);
  if (config.full.kv_heads > 0)
    cuts_groups("full_attention_num_query_groups", config.full.kv_heads);
  if (config.qk_norm && !config.qk_norm_per_head && config.kv_heads % place.tp != 0) {
    problems.push_back(
        fmt::format("model.qk_layernorm_per_head: false with {} key-value heads and {} "
                    "tensor-parallel ranks: expected a number of ranks that divides the heads",
                    config.kv_heads, place.tp));
  }
  const auto divides_experts = [&](const char* field, const char* what, int64_t size, int ranks,
                                   const char* kind) {
    if (config.moe.any() && size % ranks != 0)
      problems.push_back(fmt::format("model.{}: {} {} do not divide by {} {} ranks", field, size,
                                     what, ranks, kind));
  };
  divides_experts("num_moe_experts", "experts", config.moe.experts, place.ep, "expert-parallel");
  divides_experts("moe_ffn_hidden_size", "features of an expert", config.moe.feed_forward,
                  place.etp, "expert-tensor-parallel");
  divides_experts("moe_shared_expert_intermediate_size", "features of the shared expert",
                  config.moe.shared_feed_forward, place.tp, "tensor-parallel");
  if (place.vocabulary_multiple < 1) {
    problems.push_back(
        fmt::format("model.make_vocab_size_divisible_by: the vocabulary is padded to a multiple of "
                    "{}, expected "
                    "at least 1",
                    place.vocabulary_multiple));
  }
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

}  // namespace viaduct
