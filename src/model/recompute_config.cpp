#include "model/recompute_config.h"

#include <algorithm>
#include <iterator>

namespace viaduct {
namespace {

/// In the order of messages.
constexpr RecomputeModule kModules[] = {RecomputeModule::core_attn, RecomputeModule::layernorm,
                                        RecomputeModule::mlp,       RecomputeModule::mla_up_proj,
                                        RecomputeModule::moe_act,   RecomputeModule::shared_experts,
                                        RecomputeModule::moe};

void recompute_modules(const RecomputeConfig& config, const ChunkLayers& chunk,
                       SavedPolicy& policy) {
  for (int64_t i = 0; i < chunk.blocks; ++i) {
    for (const RecomputeModule module : config.recompute_modules) {
      if (module == RecomputeModule::moe) {  // segments, not units: they are recomputed as one
        policy.recompute_layers({chunk.first_block + i, 1, false, true});
        continue;
      }
      for (const std::string_view unit : module_units(module))
        policy.set(chunk.first_block + i, unit, UnitPolicy::recompute);
    }
  }
}

/// `all`: block means every layer.
void recompute_layers(const RecomputeConfig& config, const ChunkLayers& chunk, bool all,
                      SavedPolicy& policy) {
  const bool apart = config.recompute_segments_apart;
  const int64_t number = all ? chunk.blocks : config.recompute_num_layers.value();
  if (config.recompute_method == RecomputeMethod::uniform) {
    for (int64_t i = 0; i < chunk.blocks; i += number)
      policy.recompute_layers({chunk.first_block + i, std::min(number, chunk.blocks - i), apart});
    return;
  }
  for (int64_t i = 0; i < std::min(number, chunk.blocks); ++i)
    policy.recompute_layers({chunk.first_block + i, 1, apart});
}

/// The layers of multi-token prediction after the last chunk, as in Megatron: uniform recomputes
/// each by itself, block none, unless it means every layer.
void recompute_further(const RecomputeConfig& config, int64_t first, int64_t blocks, bool all,
                       SavedPolicy& policy) {
  if (!all && config.recompute_method != RecomputeMethod::uniform) return;
  for (int64_t i = 0; i < blocks; ++i)
    policy.recompute_layers({first + i, 1, config.recompute_segments_apart});
}

/// One behind the last block of the map.
int64_t end_of(const std::vector<ChunkLayers>& layer_map) {
  return layer_map.empty() ? 0 : layer_map.back().first_block + layer_map.back().blocks;
}

/// The blocks of each chunk under their numbers in policies: those of an encoder are behind those
/// of the decoder and the `further` ones.
std::vector<ChunkLayers> numbered_blocks(const std::vector<ChunkLayers>& layer_map,
                                         int64_t further) {
  const int64_t behind = end_of(layer_map) + further;
  std::vector<ChunkLayers> list;
  for (const ChunkLayers& chunk : layer_map) {
    const EncoderChunk& encoder = chunk.encoder;
    if (encoder.blocks > 0)
      list.push_back({false, behind + encoder.first_block, encoder.blocks, false});
    list.push_back(chunk);
  }
  return list;
}

}  // namespace

FieldGroup recompute_fields(RecomputeConfig& config) {
  FieldGroup group("model", "");
  group.on_resume(resume::free);
  group
      .field("recompute_granularity", config.recompute_granularity,
             "What the backward recomputes instead of the forward keeping it, with the same bits. "
             "full: whole layers, in groups that keep only their input; selective: "
             "recompute_modules, in every layer.")
      .alias("recompute_granuality")
      .constraint("full needs recompute_method and recompute_num_layers")
      .idle([&config] { return config.selective() && config.recompute_modules.empty(); },
            "model.recompute_modules is empty")
      .decides(LayoutPart::recompute);
  group
      .field("recompute_method", config.recompute_method,
             "uniform: every group of recompute_num_layers layers of a chunk keeps its input, and "
             "is recomputed as one; block: the first recompute_num_layers layers of each chunk do, "
             "each by itself, and the others are kept.")
      .constraint("no effect without recompute_granularity=full")
      .idle([&config] { return !config.full(); }, "model.recompute_granularity is not full")
      .decides(LayoutPart::recompute);
  group
      .field("recompute_num_layers", config.recompute_num_layers, "The number in recompute_method.")
      .range(1)
      .constraint("at most the layers of a chunk; null with recompute_granularity=selective")
      .idle([&config] { return !config.full(); }, "model.recompute_granularity is not full")
      .decides(LayoutPart::recompute);
  group
      .field(
          "recompute_modules", config.recompute_modules,
          "What selective recompute recomputes. core_attn: attended values; layernorm: the "
          "outputs of the norms before QKV and feed-forward; mlp: what lies between the two "
          "matrices of the feed-forward, or of each expert; mla_up_proj: queries, keys and values "
          "of latent attention, from its compressed vectors; moe_act: the activations of experts; "
          "shared_experts: the inside of the expert of all tokens; moe: router, exchanges, experts "
          "and the norm before them, so that only the residual stream is kept.")
      .constraint(
          "mla_up_proj needs multi_latent_attention; moe_act and moe need experts, and exclude "
          "each "
          "other; shared_experts needs such an expert, and excludes moe")
      .idle([&config] { return !config.selective(); },
            "model.recompute_granularity is not selective");
  group
      .field(
          "distribute_saved_activations", config.distribute_saved_activations,
          "Each tensor rank keeps only its share of the input of a group of layers; the backward "
          "gathers it.")
      .constraint("needs recompute_granularity=full; not with sequence_parallel, which cuts it");
  group
      .field("recompute_segments_apart", config.recompute_segments_apart,
             "With full recompute, attention and feed-forward of a layer keep their inputs and run "
             "again one after the other, so that the inside of only one of them is in memory at a "
             "time; the layer keeps two streams instead of one.")
      .constraint("needs recompute_granularity=full; with uniform also recompute_num_layers=1");
  group
      .field(
          "num_microbatches_with_partial_activation_checkpoints",
          config.num_microbatches_with_partial_activation_checkpoints,
          "Of the micro-batches (and chunks) that a stage holds at one time, this many, the first "
          "ones, keep more: with full recompute they recompute recompute_num_layers layers of a "
          "chunk and the others all layers, with selective they keep everything. null: all are "
          "alike.")
      .range(0)
      .in("micro-batches")
      .constraint("needs recompute_granularity=selective, or full with recompute_method=block")
      .decides(LayoutPart::recompute);
  return group;
}

std::vector<RecomputeModule> recomputable_modules(const ModelParts& model) {
  std::vector<RecomputeModule> modules;
  std::ranges::copy_if(kModules, std::back_inserter(modules), [&](RecomputeModule module) {
    if (module == RecomputeModule::mla_up_proj) return model.latent_attention;
    if (module == RecomputeModule::shared_experts) return model.shared_experts;
    return model.experts || (module != RecomputeModule::moe_act && module != RecomputeModule::moe);
  });
  return modules;
}

std::vector<std::string_view> module_units(RecomputeModule module) {
  switch (module) {
    case RecomputeModule::core_attn:
      return {unit::core_attn};
    case RecomputeModule::moe_act:
      return {unit::moe_act};
    case RecomputeModule::layernorm:
      return {unit::attn_norm, unit::mlp_norm};
    case RecomputeModule::mla_up_proj:
      return {unit::mla_up_proj};
    case RecomputeModule::mlp:
      return {unit::mlp, unit::moe_act};
    case RecomputeModule::moe:
      return {unit::mlp_norm, unit::mlp, unit::expert_fc1, unit::moe_act, unit::shared_experts};
    case RecomputeModule::shared_experts:
      return {unit::shared_experts};
  }
  return {};
}

SavedPolicy saved_policy(const RecomputeConfig& config, const std::vector<ChunkLayers>& layer_map,
                         int64_t further) {
  SavedPolicy policy;
  if (config.distribute_saved_activations) policy.share_layer_inputs();
  const bool partly = config.num_microbatches_with_partial_activation_checkpoints.has_value();
  for (const ChunkLayers& chunk : numbered_blocks(layer_map, further)) {
    if (config.selective() && !partly) recompute_modules(config, chunk, policy);
    if (config.full()) recompute_layers(config, chunk, false, policy);
  }
  const ChunkLayers behind{false, end_of(layer_map), further, false};
  if (config.selective() && !partly) recompute_modules(config, behind, policy);
  if (config.full()) recompute_further(config, behind.first_block, further, false, policy);
  return policy;
}

SavedPolicy policy_of_later_micro_batches(const RecomputeConfig& config,
                                          const std::vector<ChunkLayers>& layer_map,
                                          int64_t further) {
  SavedPolicy policy;
  if (config.distribute_saved_activations) policy.share_layer_inputs();
  for (const ChunkLayers& chunk : numbered_blocks(layer_map, further)) {
    if (config.selective()) recompute_modules(config, chunk, policy);
    if (config.full()) recompute_layers(config, chunk, true, policy);
  }
  const ChunkLayers behind{false, end_of(layer_map), further, false};
  if (config.selective()) recompute_modules(config, behind, policy);
  if (config.full()) recompute_further(config, behind.first_block, further, true, policy);
  return policy;
}

}  // namespace viaduct
