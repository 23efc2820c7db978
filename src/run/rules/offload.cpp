// Offloading between forward and backward, and of weights.

#include <fmt/ranges.h>

#include <algorithm>

#include "model/offload_config.h"
#include "run/parallel_settings.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

void validate_layers(const RunConfig& config, Problems& problems) {
  const OffloadConfig& offload = config.offload;
  const auto& layers = config.model.num_layers;
  if (!offload.cpu_offloading_activations && !offload.cpu_offloading_weights) {
    problems.add(
        "model.cpu_offloading_activations: false and cpu_offloading_weights = false leave "
        "cpu_offloading nothing to move; expected true for at least one of them");
  }
  const int64_t encoder = encoder_layers(config);
  if (!layers.is_auto() && offload.cpu_offloading_num_layers > encoder + layers.value()) {
    problems.add(
        "model.cpu_offloading_num_layers: {} is more than {}num_layers = {}; expected 0 to {}",
        offload.cpu_offloading_num_layers, encoder > 0 ? "encoder_num_layers + " : "",
        encoder + layers.value(), encoder + layers.value());
  }
  if (offload.fine_grained_activation_offloading) {
    problems.add(
        "model.cpu_offloading and fine_grained_activation_offloading are both true: set only one "
        "of them, for whole layers or for modules");
  }
}

/// Of weights, a rank's shards are moved.
void validate_weights(const RunConfig& config, Problems& problems) {
  if (!config.ddp.shards_weights()) {
    problems.add(
        "model.cpu_offloading_weights: true needs ddp.data_parallel_sharding_strategy = "
        "optim_grads_params, found {}: otherwise each rank has all weights at all times",
        choice_name(config.ddp.strategy()));
  }
  const bool narrow =
      config.mixed_precision.recipe == RecipeName::bf16_mixed && !config.ddp.grad_reduce_in_fp32;
  if (narrow && config.optimizer_state.main_grads_dtype != NumberFormat::bf16) {
    problems.add(
        "model.cpu_offloading_weights: true with ddp.grad_reduce_in_fp32 = false needs "
        "optimizer.main_grads_dtype = bf16, found {}: an FP32 copy of all gradients would stay on "
        "the device",
        choice_name(config.optimizer_state.main_grads_dtype));
  }
}

/// Whether a module of recompute_modules and one of offload_modules have a unit in common.
bool share_a_unit(RecomputeModule recomputed, OffloadModule offloaded) {
  const auto again = module_units(recomputed), leaves = offloaded_units(offloaded);
  return std::find_first_of(again.begin(), again.end(), leaves.begin(), leaves.end()) !=
         again.end();
}

void validate_modules(const RunConfig& config, Problems& problems) {
  const std::vector<OffloadModule>& modules = config.offload.offload_modules;
  const auto moves = [&](OffloadModule module) {
    return std::find(modules.begin(), modules.end(), module) != modules.end();
  };
  const auto& experts = config.model.moe.num_moe_experts;
  const auto known = offload_modules_of(experts.is_auto() || config.model.moe.experts() > 0);
  if (modules.empty()) {
    problems.add(
        "model.fine_grained_activation_offloading: true needs offload_modules, which is empty; "
        "expected some of {}",
        fmt::join(choice_names_of(known), ", "));
  }
  for (const OffloadModule module : modules) {
    if (std::find(known.begin(), known.end(), module) == known.end()) {
      problems.add(
          "model.offload_modules: {} is a part of experts, but the model has no experts; it has {}",
          choice_name(module), fmt::join(choice_names_of(known), ", "));
    }
  }
  if (moves(OffloadModule::attn_proj) && !moves(OffloadModule::core_attn)) {
    problems.add(
        "model.offload_modules: attn_proj needs core_attn, which keeps the same attended values; "
        "expected both or none");
  }
  if (!config.recompute.selective()) return;
  for (const RecomputeModule again : config.recompute.recompute_modules) {
    for (const OffloadModule module : modules) {
      if (!share_a_unit(again, module)) continue;
      problems.add(
          "model.offload_modules: {} is a part of {} in recompute_modules, which does not keep it: "
          "a module is either offloaded or recomputed",
          choice_name(module), choice_name(again));
    }
  }
}

void refuse_offload(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  const OffloadConfig& offload = config.offload;
  if (offload.cpu_offloading) validate_layers(config, problems);
  if (offload.moves_weights()) validate_weights(config, problems);
  if (offload.fine_grained_activation_offloading) validate_modules(config, problems);
  if (offload.fine_grained_activation_offloading && config.recompute.full() &&
      config.recompute.recompute_method == RecomputeMethod::uniform) {
    problems.add(
        "model.fine_grained_activation_offloading: true, but recompute_granularity = full with "
        "recompute_method = uniform recomputes every layer: no module is left to offload "
        "(cpu_offloading moves the inputs of layers; recompute_method = block leaves layers)");
  }
}

}  // namespace

Topic offload_topic() {
  std::vector<NoEffectRule> idle{
      {{"memory.offload_path", "memory.offload_bytes"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!c.offload.by_layer() && !c.offload.by_module() &&
                              c.state_offload.fraction() == 0 && !c.offload.moves_weights(),
                          "nothing is offloaded");
       }},
  };
  return {refuse_offload, std::move(idle)};
}

}  // namespace viaduct
