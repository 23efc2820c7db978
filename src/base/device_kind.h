#pragma once
// What a rank computes on. Settings name it (`dist.device`), and say on which kinds they are built.

#include <array>
#include <string_view>

namespace viaduct {

enum class DeviceKind { cpu, cuda, sim };
inline constexpr std::array kDeviceKinds{DeviceKind::cpu, DeviceKind::cuda, DeviceKind::sim};
/// As settings with choices have them (config/choice.h).
constexpr auto choice_names(DeviceKind) {
  return std::to_array<std::string_view>({"cpu", "cuda", "sim"});
}

}  // namespace viaduct
