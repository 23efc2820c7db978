#include "dry_run_target.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/nearest.h"
#include "hardware/cpu_isa.h"

namespace viaduct::cli {
namespace {

constexpr std::string_view kCpu = "cpu:", kCuda = "cuda:";

}  // namespace

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const CpuIsa isa : kCpuIsas) names.push_back(std::string(kCpu).append(cpu_isa_name(isa)));
  for (const CudaTarget target : kCudaTargets)
    names.push_back(std::string(kCuda).append(cuda_target_name(target)));
  return names;
}

void use_target(const std::string& target, std::vector<std::string>& overrides,
                RunConfig& defaults) {
  if (target.empty()) return;
  const std::vector<std::string> names = target_names();
  if (std::find(names.begin(), names.end(), target) == names.end()) {
    // sm_90 is meant to be sm_90a, although it is as near to sm_80.
    const auto longer = std::ranges::find_if(names, [&](const std::string& name) {
      return !target.empty() && name.starts_with(target);
    });
    const auto nearest =
        longer != names.end() ? std::optional(*longer) : nearest_name(target, names);
    fail<ConfigError>("--target: expected one of {}, found {}{}", fmt::join(names, ", "), target,
                      nearest ? "; nearest: " + *nearest : "");
  }
  if (target.starts_with(kCuda)) {
    defaults.cuda_target = cuda_target_of(target.substr(kCuda.size()));
    return;
  }
  defaults.dist.device = DeviceKind::cpu;  // also on a machine whose runs would use its GPU
  constexpr std::string_view kField = "dist.cpu_isa=";
  for (const std::string& given : overrides) {
    VIADUCT_CHECK(ConfigError, !given.starts_with(kField),
                  "--target {} and {} both name the instruction set: expected only one", target,
                  given);
  }
  overrides.push_back(std::string(kField) + target.substr(kCpu.size()));
}

}  // namespace viaduct::cli
