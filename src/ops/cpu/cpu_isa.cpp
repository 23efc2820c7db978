#include <algorithm>

#include "hardware/cpu/amx_permission.h"
#include "hardware/cpu_features.h"
#include "ops/cpu/amx_problem.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/tiles/tile_check.h"

namespace viaduct {

namespace {

/// Detected once per process.
const CpuFeatures& features() {
  static const CpuFeatures kFeatures = detect_cpu_features();
  return kFeatures;
}

}  // namespace

std::string cpu::amx_problem(bool cpu_has, bool granted, FunctionRef<bool()> computes) {
  if (!cpu_has) return "";
  if (!granted)
    return "AMX is not used: the CPU has it, and the kernel does not grant its tile registers";
  if (computes()) return "";
  return "AMX is not used: its products are WRONG on this machine (the check at start compares one "
         "with plain loops); the CPU or its virtualization is faulty";
}

const std::string& amx_problem() {
  static const std::string kProblem = [] {
    const bool has = features().amx_bf16;
    return cpu::amx_problem(has, has && cpu::request_amx_permission(),
                            [] { return cpu::tiles_compute(cpu::amx::tile_kernels()); });
  }();
  return kProblem;
}

bool cpu_supports(CpuIsa isa) {
  return executes(features(), isa) && (isa != CpuIsa::amx || amx_problem().empty());
}

std::vector<CpuIsa> cpu::by_speed(const CpuFeatures& features, FunctionRef<bool(CpuIsa)> usable) {
  std::vector<CpuIsa> isas;
  for (const CpuIsa isa : kCpuIsas)
    if (usable(isa)) isas.push_back(isa);
  const auto bf16 = std::find(isas.begin(), isas.end(), CpuIsa::avx512_bf16);
  // Wherever vectors of BF16 can be multiplied, those of FP32 can be.
  if (bf16 != isas.end() && features.slow_bf16_vectors) std::iter_swap(bf16 - 1, bf16);
  return isas;
}

std::vector<CpuIsa> cpu_isas_by_speed() {
  return cpu::by_speed(features(), [](CpuIsa isa) { return cpu_supports(isa); });
}

CpuIsa best_cpu_isa() {
  return cpu_isas_by_speed().back();
}

}  // namespace viaduct
