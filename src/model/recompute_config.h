#pragma once
// Which activations are recomputed in the backward instead of being kept (section `model`), as in
// Megatron.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "nn/saved_policy.h"
#include "pipeline/chunk_layers.h"

namespace viaduct {

enum class RecomputeGranularity { full, selective };
constexpr auto choice_names(RecomputeGranularity) {
  return std::to_array<std::string_view>({"full", "selective"});
}

enum class RecomputeMethod { uniform, block };
constexpr auto choice_names(RecomputeMethod) {
  return std::to_array<std::string_view>({"uniform", "block"});
}

/// What selective recompute recomputes.
enum class RecomputeModule {
  core_attn,
  moe_act,
  layernorm,
  mla_up_proj,
  mlp,
  moe,
  shared_experts,
};
constexpr auto choice_names(RecomputeModule) {
  return std::to_array<std::string_view>(
      {"core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts"});
}

struct RecomputeConfig {
  std::optional<RecomputeGranularity> recompute_granularity;  // null: all activations are kept
  std::optional<RecomputeMethod> recompute_method;            // of full
  std::optional<int64_t> recompute_num_layers;                // the number in recompute_method
  std::vector<RecomputeModule> recompute_modules{RecomputeModule::core_attn};  // of selective
  bool distribute_saved_activations = false;  // of full: over tensor ranks
  bool recompute_segments_apart = false;      // of full: attention and feed-forward
  /// How many of the micro-batches that a stage holds at one time keep more; null: all are alike.
  std::optional<int64_t> num_microbatches_with_partial_activation_checkpoints;

  bool full() const { return recompute_granularity == RecomputeGranularity::full; }
  bool selective() const { return recompute_granularity == RecomputeGranularity::selective; }
};

FieldGroup recompute_fields(RecomputeConfig& config);

/// Features of a model that modules belong to.
struct ModelParts {
  bool latent_attention = false, experts = false, shared_experts = false;
};

/// The modules that a model has.
std::vector<RecomputeModule> recomputable_modules(const ModelParts& model);
/// The units that a module stands for.
std::vector<std::string_view> module_units(RecomputeModule module);

/// What a configuration without problems asks for, for chunks as in `layer_map`, followed by
/// `further` layers of multi-token prediction: one policy for all ranks. If some micro-batches keep
/// more, this is their policy.
SavedPolicy saved_policy(const RecomputeConfig& config, const std::vector<ChunkLayers>& layer_map,
                         int64_t further = 0);
/// The policy of the other micro-batches: every layer, or every module of recompute_modules, is
/// recomputed.
SavedPolicy policy_of_later_micro_batches(const RecomputeConfig& config,
                                          const std::vector<ChunkLayers>& layer_map,
                                          int64_t further = 0);

}  // namespace viaduct
