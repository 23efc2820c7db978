#include "run/environment_config.h"

#include <fmt/format.h>

#include <cstdlib>

namespace viaduct {
namespace {

constexpr std::array<std::string_view, EnvironmentConfig::kNames.size()> kTexts{
    "Hardware queues of a GPU, 1 to 32. The guides set 1 before Blackwell so that communication is "
    "launched before the product it overlaps; here events order launches, and none is needed.",
    "1: network cards reach GPU memory over the chip-to-chip link (NCCL 2.26 and later).",
    "How near a network card must be to read GPU memory, as PHB (NCCL up to 2.25).",
    "0: no reductions in NVLink switches, which saves GPU memory.",
    "0: no registration of buffers inside CUDA graphs.",
    "Bytes of a network chunk of sends and receives; 2097152 for bandwidth.",
    "Fixes the algorithm of collectives, and with it the order of their sums."};

}  // namespace

FieldGroup environment_fields(EnvironmentConfig& config) {
  FieldGroup group("env_vars",
                   "Environment variables that the guides of Megatron-Bridge and NeMo set. With "
                   "dist.device=cuda they are set before the libraries of the GPU are used, unless "
                   "they are set already.");
  group.on_resume(resume::free);
  for (size_t i = 0; i < config.values.size(); ++i)
    group.field(std::string(config.kNames[i]), config.values[i], std::string(kTexts[i]))
        .environment = true;
  return group;
}

std::vector<std::string> set_environment(const EnvironmentConfig& config) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < config.values.size(); ++i) {
    const auto& value = config.values[i];
    if (!value) continue;
    const std::string name(config.kNames[i]);
    if (const char* present = std::getenv(name.c_str())) {
      lines.push_back(fmt::format("{}={} is set in the environment{}", name, present,
                                  *value == present ? "" : " and stays; env_vars has " + *value));
      continue;
    }
    ::setenv(name.c_str(), value->c_str(), 0);
    lines.push_back(fmt::format("{}={} is set for this run (env_vars)", name, *value));
  }
  return lines;
}

}  // namespace viaduct
