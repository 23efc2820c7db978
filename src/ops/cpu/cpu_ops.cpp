#include "ops/cpu/cpu_ops.h"

#include "base/error.h"

namespace viaduct {

std::string_view cpu_isa_name(CpuIsa isa) {
  return isa == CpuIsa::amx ? "amx" : isa == CpuIsa::avx512 ? "avx512" : "avx2";
}

bool cpu_supports(CpuIsa isa) {
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  switch (isa) {
    case CpuIsa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case CpuIsa::avx512:
      return avx512;
    case CpuIsa::amx:
      return false;  // no AMX kernel exists yet
  }
  return false;
}

CpuIsa best_cpu_isa() {
  return cpu_supports(CpuIsa::avx512) ? CpuIsa::avx512 : CpuIsa::avx2;
}

OpTable cpu_ops(CpuIsa isa, bool for_simulation) {
  VIADUCT_CHECK(DeviceError, for_simulation || cpu_supports(isa),
                "dist.cpu_isa={}: this machine, or this build, cannot run it; the best here is {}",
                cpu_isa_name(isa), cpu_isa_name(best_cpu_isa()));
  OpTable table;
  table.traits.name = "cpu:" + std::string(cpu_isa_name(isa));
  table.traits.vector_floats = isa == CpuIsa::avx2 ? 8 : 16;
  cpu::add_gemm(table, isa);
  cpu::add_norm(table, isa);
  cpu::add_activation(table, isa);
  cpu::add_rotary(table, isa);
  cpu::add_attention(table, isa);
  cpu::add_embedding(table, isa);
  cpu::add_cross_entropy(table, isa);
  cpu::add_elementwise(table, isa);
  cpu::add_optimizer(table, isa);
  return table;
}

}  // namespace viaduct
