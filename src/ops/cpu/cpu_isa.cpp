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

CpuIsa best_cpu_isa() {
  for (const CpuIsa isa : {CpuIsa::amx, CpuIsa::avx512_bf16, CpuIsa::avx512, CpuIsa::avx2}) {
    if (cpu_supports(isa)) return isa;
  }
  return CpuIsa::portable;
}

}  // namespace viaduct
