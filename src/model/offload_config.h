#pragma once
// Which saved values leave the device between forward and backward (section `model`, as in
// Megatron), and where to (section `memory`).

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "device/slot_memory.h"
#include "nn/saved_policy.h"

namespace viaduct {

/// What fine-grained offloading moves; each name is one of a unit (nn/saved_policy.h).
enum class OffloadModule {
  attn_norm,
  qkv_linear,
  core_attn,
  attn_proj,
  mlp_norm,
  mlp,
  expert_fc1,
  moe_act,
};
constexpr auto choice_names(OffloadModule) {
  return std::to_array<std::string_view>({"attn_norm", "qkv_linear", "core_attn", "attn_proj",
                                          "mlp_norm", "mlp", "expert_fc1", "moe_act"});
}

struct OffloadConfig {
  bool cpu_offloading = false;                      // all units of the first layers
  int64_t cpu_offloading_num_layers = 0;            // how many
  bool cpu_offloading_activations = true;           // what moves
  bool cpu_offloading_weights = false;              // shards of them, and of main gradients
  bool fine_grained_activation_offloading = false;  // the units of offload_modules, in every layer
  std::vector<OffloadModule> offload_modules;
  int64_t min_offloaded_tensor_size = int64_t{1} << 20;  // elements, of offload_modules
  std::optional<std::string> offload_path;               // folder of a file; none: host memory
  std::optional<int64_t> offload_bytes;                  // the most of a rank

  bool by_layer() const {
    return cpu_offloading && cpu_offloading_activations && cpu_offloading_num_layers > 0;
  }
  bool moves_weights() const { return cpu_offloading && cpu_offloading_weights; }
  bool by_module() const { return fine_grained_activation_offloading && !offload_modules.empty(); }
};

FieldGroup offload_fields(OffloadConfig& config);
FieldGroup second_memory_fields(OffloadConfig& config);

/// The units that a module stands for.
std::vector<std::string_view> offloaded_units(OffloadModule module);
/// The modules that a model has, with experts or without.
std::vector<OffloadModule> offload_modules_of(bool experts);

/// Whether a unit keeps rows of experts, whose number depends on the data where ranks exchange
/// them.
bool has_expert_rows(std::string_view unit);

/// Adds to `policy` what a configuration without problems asks for, in a model of `layers` blocks
/// and `further` ones of multi-token prediction, which offloading by layers does not affect. What
/// is recomputed already stays so. `rows_exchanged`: ranks exchange the rows of experts, which then
/// stay. `encoder`: blocks of an encoder, the first of the model, which have the numbers behind all
/// others.
void add_offload(const OffloadConfig& config, int64_t layers, SavedPolicy& policy,
                 int64_t further = 0, bool rows_exchanged = false, int64_t encoder = 0);
SecondMemorySettings second_memory_settings(const OffloadConfig& config);

}  // namespace viaduct
