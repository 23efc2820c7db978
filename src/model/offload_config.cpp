#include "model/offload_config.h"

#include <algorithm>

namespace viaduct {

FieldGroup offload_fields(OffloadConfig& config) {
  FieldGroup group("model", "");
  group.on_resume(resume::free);
  group
      .field(
          "cpu_offloading", config.cpu_offloading,
          "What the first cpu_offloading_num_layers layers save goes to a second memory (section "
          "memory) until their backward, with the same bits.")
      .constraint("excludes fine_grained_activation_offloading")
      .idle(
          [&config] {
            return config.cpu_offloading && config.cpu_offloading_num_layers == 0 &&
                   !config.cpu_offloading_weights;
          },
          "model.cpu_offloading_num_layers = 0");
  group
      .field("cpu_offloading_num_layers", config.cpu_offloading_num_layers,
             "Layers that cpu_offloading moves, counted from the first of the model; an encoder's "
             "are in front of the decoder's.")
      .range(0)
      .constraint("at most encoder_num_layers + num_layers")
      .idle([&config] { return !config.cpu_offloading; }, "model.cpu_offloading is off");
  group
      .field("cpu_offloading_activations", config.cpu_offloading_activations,
             "cpu_offloading moves activations.")
      .constraint("cpu_offloading needs it or cpu_offloading_weights")
      .idle([&config] { return !config.cpu_offloading; }, "model.cpu_offloading is off");
  group
      .field("cpu_offloading_weights", config.cpu_offloading_weights,
             "With cpu_offloading, a rank's shards of all weights and main gradients live in the "
             "second memory; those of a unit come to the device before its gather, and before its "
             "update, with the same bits.")
      .constraint(
          "needs ddp.data_parallel_sharding_strategy=optim_grads_params; with "
          "ddp.grad_reduce_in_fp32=false also optimizer.main_grads_dtype=bf16")
      .idle([&config] { return !config.cpu_offloading; }, "model.cpu_offloading is off");
  group
      .field("fine_grained_activation_offloading", config.fine_grained_activation_offloading,
             "What offload_modules keep in every layer goes to the second memory until the "
             "backward, with the same bits.")
      .constraint("needs offload_modules");
  group
      .field(
          "offload_modules", config.offload_modules,
          "Modules that fine_grained_activation_offloading moves, each with what it keeps and no "
          "module on the device keeps: attn_norm and mlp_norm their inputs, qkv_linear and mlp the "
          "norms' outputs (mlp also the inside of the feed-forward, or of each expert), core_attn "
          "queries, keys and values, attn_proj with core_attn the attended values, expert_fc1 the "
          "rows of experts, moe_act the inside of experts.")
      .constraint(
          "attn_proj needs core_attn; none of them recomputed; expert_fc1 and moe_act need "
          "experts")
      .idle([&config] { return !config.fine_grained_activation_offloading; },
            "model.fine_grained_activation_offloading is off");
  group
      .field("min_offloaded_tensor_size", config.min_offloaded_tensor_size,
             "Tensors of offload_modules with fewer elements stay on the device.")
      .range(0)
      .in("elements")
      .idle([&config] { return !config.fine_grained_activation_offloading; },
            "model.fine_grained_activation_offloading is off");
  return group;
}

FieldGroup second_memory_fields(OffloadConfig& config) {
  FieldGroup group("memory", "The second memory, to which saved values are offloaded.");
  group.on_resume(resume::free);
  group
      .field("offload_path", config.offload_path,
             "Folder for an unnamed file per rank, with direct I/O where the file system supports "
             "it; the file disappears when the process ends. null: a region of the host's memory "
             "beside the device's.")
      .planned_on(DeviceKind::cuda, "the second memory of a GPU is pinned host memory");
  group
      .field("offload_bytes", config.offload_bytes,
             "Maximum size of the second memory of a rank; null: as much as is needed.")
      .range(MemorySlots::kAlignment)
      .in("bytes");
  return group;
}

std::vector<OffloadModule> offload_modules_of(bool experts) {
  using enum OffloadModule;
  std::vector<OffloadModule> modules{attn_norm, qkv_linear, core_attn, attn_proj, mlp_norm, mlp};
  if (experts) modules.insert(modules.end(), {expert_fc1, moe_act});
  return modules;
}

std::vector<std::string_view> offloaded_units(OffloadModule module) {
  if (module == OffloadModule::mlp) return {unit::mlp, unit::moe_act};
  return {choice_name(module)};
}

bool has_expert_rows(std::string_view unit) {
  return unit == unit::expert_fc1 || unit == unit::moe_act;
}

void add_offload(const OffloadConfig& config, int64_t layers, SavedPolicy& policy, int64_t further,
                 bool rows_exchanged, int64_t encoder) {
  const auto offload = [&](int64_t block, std::string_view unit) {
    if (rows_exchanged && has_expert_rows(unit)) return;
    if (policy.of(block, unit) == UnitPolicy::keep) policy.set(block, unit, UnitPolicy::offload);
  };
  if (config.by_layer()) {
    for (int64_t i = 0; i < std::min(config.cpu_offloading_num_layers, encoder + layers); ++i) {
      const int64_t block = i < encoder ? layers + further + i : i - encoder;
      const LayerGroup* group = policy.group_of(block);
      if (group != nullptr) offload(block, unit::layer);
      if (group != nullptr && !group->experts) continue;
      for (const std::string_view unit : kUnits) offload(block, unit);
      for (const std::string_view unit : kLatentUnits) offload(block, unit);
      for (const std::string_view unit : kExpertUnits) offload(block, unit);
    }
  }
  if (config.by_module()) {
    policy.offload_from(config.min_offloaded_tensor_size);
    for (int64_t block = 0; block < layers + further + encoder; ++block)
      for (const OffloadModule module : config.offload_modules)
        for (const std::string_view unit : offloaded_units(module)) offload(block, unit);
  }
}

SecondMemorySettings second_memory_settings(const OffloadConfig& config) {
  return {config.offload_path, config.offload_bytes};
}

}  // namespace viaduct
