// Recomputation in the backward.

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "pipeline/layer_map.h"
#include "run/parallel_settings.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

/// Layers of the largest chunk; 0 while the layers are not known or do not divide into chunks,
/// which other rules report.
int64_t largest_chunk(const RunConfig& config) {
  const auto& layers = config.model.num_layers;
  if (layers.is_auto()) return 0;
  try {
    int64_t most = 0;
    const auto decoder =
        layer_map(config.pipeline, layers.value(), config.parallel.pipeline_model_parallel_size);
    for (const ChunkLayers& chunk : with_encoder(
             decoder, encoder_layers(config), config.parallel.encoder_pipeline_model_parallel_size))
      most = std::max({most, chunk.blocks, chunk.encoder.blocks});
    return most;
  } catch (const ConfigError&) {
    return 0;
  }
}

void validate_full(const RunConfig& config, Problems& problems) {
  const RecomputeConfig& recompute = config.recompute;
  const int64_t most = largest_chunk(config);
  const std::string range = most > 0 ? fmt::format("1 to {}", most) : "1 to the layers of a chunk";
  if (!recompute.recompute_method) {
    problems.add(
        "model.recompute_granularity: full needs recompute_method, which is null; expected uniform "
        "or block");
  }
  if (!recompute.recompute_num_layers) {
    problems.add(
        "model.recompute_granularity: full needs recompute_num_layers, which is null; expected {}",
        range);
  } else if (most > 0 && *recompute.recompute_num_layers > most) {
    problems.add(
        "model.recompute_num_layers: {} is more than the {} of a pipeline stage's chunk; "
        "expected {}",
        *recompute.recompute_num_layers, counted(most, "layer"), range);
  }
}

/// Values that are still auto have the family's defaults, or are determined by the model's folder,
/// which is read later: then they count as present.
ModelParts parts_of(const RunConfig& config) {
  ModelFields model = config.model;
  if (!config.checkpoint.pretrained_checkpoint && !model.hf_config) model.resolve();
  ModelParts parts;
  const auto& latent = model.latent.multi_latent_attention;
  parts.latent_attention = latent.is_auto() || latent.value();
  parts.experts = model.moe.num_moe_experts.is_auto() || model.moe.experts() > 0;
  const auto& shared = model.moe.moe_shared_expert_intermediate_size;
  parts.shared_experts = parts.experts && (shared.is_auto() || shared.value().value_or(0) > 0);
  return parts;
}

void validate_selective(const RecomputeConfig& recompute, const ModelParts& model,
                        Problems& problems) {
  if (recompute.recompute_num_layers) {
    problems.add(
        "model.recompute_num_layers: {} is for recompute_granularity=full; selective recomputes "
        "its modules in every layer; expected null",
        *recompute.recompute_num_layers);
  }
  const auto known = recomputable_modules(model);
  const auto& modules = recompute.recompute_modules;
  const bool whole = std::ranges::count(modules, RecomputeModule::moe) > 0;
  for (const RecomputeModule module : modules) {
    if (std::find(known.begin(), known.end(), module) == known.end()) {
      problems.add("model.recompute_modules: the model has no {}; it has {}", choice_name(module),
                   fmt::join(choice_names_of(known), ", "));
    } else if (whole &&
               (module == RecomputeModule::moe_act || module == RecomputeModule::shared_experts)) {
      problems.add(
          "model.recompute_modules: {} is a part of moe, which is recomputed as a whole; expected "
          "only one of them",
          choice_name(module));
    }
  }
}

void validate_shares(const RunConfig& config, Problems& problems) {
  if (!config.recompute.full()) {
    problems.add(
        "model.distribute_saved_activations: true needs recompute_granularity = full, found {}",
        choice_name_or(config.recompute.recompute_granularity, "null"));
  }
  if (config.parallel.tensor_model_parallel_size > 1 &&
      config.parallel.sequence_parallel.value_or(false)) {
    problems.add(
        "model.distribute_saved_activations: true, but with sequence_parallel = true each tensor "
        "rank keeps only its share anyway; expected only one of them");
  }
}

void validate_apart(const RecomputeConfig& recompute, Problems& problems) {
  if (!recompute.full()) {
    problems.add(
        "model.recompute_segments_apart: true needs recompute_granularity = full, found {}",
        choice_name_or(recompute.recompute_granularity, "null"));
  } else if (recompute.recompute_method == RecomputeMethod::uniform &&
             recompute.recompute_num_layers.value_or(1) != 1) {
    problems.add(
        "model.recompute_segments_apart: true with recompute_method = uniform needs "
        "recompute_num_layers = 1, found {}: a group of layers is recomputed as one",
        *recompute.recompute_num_layers);
  }
}

void validate_partial(const RecomputeConfig& recompute, Problems& problems) {
  if (recompute.selective() ||
      (recompute.full() && recompute.recompute_method == RecomputeMethod::block))
    return;
  problems.add(
      "model.num_microbatches_with_partial_activation_checkpoints: {} needs recompute_granularity "
      "= "
      "selective, or full with recompute_method = block, found {} with {}",
      *recompute.num_microbatches_with_partial_activation_checkpoints,
      choice_name_or(recompute.recompute_granularity, "null"),
      choice_name_or(recompute.recompute_method, "null"));
}

void refuse_recompute(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  if (config.recompute.distribute_saved_activations) validate_shares(config, problems);
  if (config.recompute.num_microbatches_with_partial_activation_checkpoints)
    validate_partial(config.recompute, problems);
  if (config.recompute.recompute_segments_apart) validate_apart(config.recompute, problems);
  if (config.recompute.full()) validate_full(config, problems);
  if (config.recompute.selective())
    validate_selective(config.recompute, parts_of(config), problems);
}

}  // namespace

Topic recompute_topic() {
  std::vector<NoEffectRule> idle{
      {{"model.distribute_saved_activations"}, one_tensor_rank},
      {{"model.num_microbatches_with_partial_activation_checkpoints"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const auto& number = c.recompute.num_microbatches_with_partial_activation_checkpoints;
         return reason_if(c.parallel.stages() == 1 && number.value_or(0) > 0 &&
                              c.pipeline.pipeline_schedule == PipelineOrder::one_f_one_b,
                          "one pipeline stage holds one micro-batch at a time");
       }},
  };
  return {refuse_recompute, std::move(idle)};
}

}  // namespace viaduct
