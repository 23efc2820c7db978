#include "hardware/cpu/amx_permission.h"
#include "hardware/cpu_features.h"
#include "ops/cpu/amx_problem.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/tiles/tile_check.h"

namespace viaduct {

std::string_view cpu_isa_name(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::avx2:
      return "avx2";
    case CpuIsa::avx512:
      return "avx512";
    case CpuIsa::avx512_bf16:
      return "avx512_bf16";
    case CpuIsa::amx:
      return "amx";
  }
  return "unknown";
}

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
    const bool has = detect_cpu_features().amx_bf16;
    return cpu::amx_problem(has, has && cpu::request_amx_permission(),
                            [] { return cpu::tiles_compute(cpu::amx::tile_kernels()); });
  }();
  return kProblem;
}

namespace {

/// Checked once per process.
bool amx_works() {
  static const bool kWorks = detect_cpu_features().amx_bf16 && amx_problem().empty();
  return kWorks;
}

}  // namespace

bool cpu_supports(CpuIsa isa) {
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  switch (isa) {
    case CpuIsa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case CpuIsa::avx512:
      return avx512;
    case CpuIsa::avx512_bf16:
      return avx512 && __builtin_cpu_supports("avx512bf16");
    case CpuIsa::amx:
      return amx_works();
  }
  return false;
}

CpuIsa best_cpu_isa() {
  for (const CpuIsa isa : {CpuIsa::amx, CpuIsa::avx512_bf16, CpuIsa::avx512}) {
    if (cpu_supports(isa)) return isa;
  }
  return CpuIsa::avx2;
}

}  // namespace viaduct
