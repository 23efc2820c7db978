#pragma once
// Section `env_vars`: variables that the libraries of a GPU read from the environment. Configured
// values are set for this process before the libraries are loaded, unless it is set already.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"

namespace viaduct {

struct EnvironmentConfig {
  static constexpr std::array<std::string_view, 7> kNames{"CUDA_DEVICE_MAX_CONNECTIONS",
                                                          "NCCL_NET_GDR_C2C",
                                                          "NCCL_NET_GDR_LEVEL",
                                                          "NCCL_NVLS_ENABLE",
                                                          "NCCL_GRAPH_REGISTER",
                                                          "NCCL_P2P_NET_CHUNKSIZE",
                                                          "NCCL_ALGO"};
  std::array<std::optional<std::string>, kNames.size()> values;  // by name
};

FieldGroup environment_fields(EnvironmentConfig& config);

/// Sets the variables that are not set; before this process starts threads or uses a GPU. Returns a
/// line for each that the configuration gives: whether it was set here, and its value.
std::vector<std::string> set_environment(const EnvironmentConfig& config);

}  // namespace viaduct
