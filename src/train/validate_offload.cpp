#include <fmt/ranges.h>

#include <algorithm>

#include "model/offload_config.h"
#include "train/validate_parallel.h"

namespace viaduct {
namespace {

void validate_layers(const RunConfig& config, Problems& problems) {
  const OffloadConfig& offload = config.offload;
  const auto& layers = config.model.num_layers;
  if (!offload.cpu_offloading_activations) {
    problems.add(
        "model.cpu_offloading_activations: false leaves cpu_offloading nothing to move "
        "(cpu_offloading_weights is not implemented yet); expected true");
  }
  if (!layers.is_auto() && offload.cpu_offloading_num_layers > layers.value()) {
    problems.add(
        "model.cpu_offloading_num_layers: {} is more than num_layers = {}; expected 0 to {}",
        offload.cpu_offloading_num_layers, layers.value(), layers.value());
  }
  if (offload.fine_grained_activation_offloading) {
    problems.add(
        "model.cpu_offloading and fine_grained_activation_offloading are both true: one of them "
        "says what leaves, whole layers or modules");
  }
}

void validate_modules(const RunConfig& config, Problems& problems) {
  const std::vector<std::string>& modules = config.offload.offload_modules;
  const auto moves = [&](std::string_view name) {
    return std::find(modules.begin(), modules.end(), name) != modules.end();
  };
  if (modules.empty()) {
    problems.add(
        "model.fine_grained_activation_offloading: true needs offload_modules, which is empty; "
        "expected some of {}",
        fmt::join(dense_offload_modules(), ", "));
  }
  for (const std::string& module : modules) {
    if (offloaded_unit(module).empty()) {
      problems.add(
          "model.offload_modules: {} is a part of experts, and the model has no experts; it "
          "has {}",
          module, fmt::join(dense_offload_modules(), ", "));
    }
  }
  if (moves(unit::attn_proj) && !moves(unit::core_attn)) {
    problems.add(
        "model.offload_modules: attn_proj needs core_attn, which keeps the same attended values; "
        "expected both or none");
  }
  if (!config.recompute.selective()) return;
  for (const std::string& again : config.recompute.recompute_modules) {
    for (const std::string_view unit : module_units(again)) {
      if (!moves(unit)) continue;
      problems.add(
          "model.offload_modules: {} is a part of {} in recompute_modules, which does not keep it: "
          "a module leaves or runs again, not both",
          unit, again);
    }
  }
}

}  // namespace

void validate_offload(const RunConfig& config, Problems& problems) {
  const OffloadConfig& offload = config.offload;
  if (offload.cpu_offloading) validate_layers(config, problems);
  if (offload.fine_grained_activation_offloading) validate_modules(config, problems);
  const bool offloads = offload.cpu_offloading || offload.fine_grained_activation_offloading;
  if (offloads && config.recompute.full() && config.recompute.recompute_method == "uniform") {
    problems.add(
        "model.{}: true, and recompute_granularity = full with recompute_method = uniform runs "
        "every "
        "layer again: nothing is left to offload (recompute_method = block leaves layers)",
        offload.cpu_offloading ? "cpu_offloading" : "fine_grained_activation_offloading");
  }
}

}  // namespace viaduct
