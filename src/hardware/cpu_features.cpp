#include "hardware/cpu_features.h"

#include <fstream>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace viaduct {
namespace {

std::string model_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(':');
    const size_t start =
        colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    if (start != std::string::npos) return line.substr(start);
  }
  return "unknown CPU";
}

}  // namespace

CpuFeatures detect_cpu_features() {
  CpuFeatures features{.model_name = model_name()};
#if defined(__x86_64__)
  __builtin_cpu_init();
  features.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  features.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  features.avx512_bf16 = features.avx512 && __builtin_cpu_supports("avx512bf16");
  features.slow_bf16_vectors =
      features.avx512_bf16 && __builtin_cpu_is("intel") && __builtin_cpu_supports("avx512fp16");
  features.amx_bf16 = features.avx512_bf16 && __builtin_cpu_supports("amx-tile") &&
                      __builtin_cpu_supports("amx-bf16");
#elif defined(__aarch64__)
  features.neon = (getauxval(AT_HWCAP) & HWCAP_ASIMD) != 0;
  features.sve = (getauxval(AT_HWCAP) & HWCAP_SVE) != 0;
  features.arm_bf16 = (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0;
#endif
  return features;
}

std::string describe(const CpuFeatures& features) {
  std::string text = features.model_name;
  const char* separator = ": ";
  const auto add = [&](bool has, const char* name) {
    if (!has) return;
    text += separator;
    text += name;
    separator = ", ";
  };
  add(features.avx2, "AVX2");
  add(features.avx512, "AVX-512");
  add(features.avx512_bf16, "AVX512-BF16");
  add(features.amx_bf16, "AMX BF16");
  add(features.neon, "NEON");
  add(features.sve, "SVE");
  add(features.arm_bf16, "BF16");
  return text;
}

}  // namespace viaduct
