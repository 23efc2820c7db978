#include "ops/cpu/cpu_ops.h"

#include "base/error.h"

namespace viaduct {

OpTable cpu_ops(CpuIsa isa, bool for_simulation) {
  VIADUCT_CHECK(
      DeviceError, for_simulation || cpu_supports(isa),
      "dist.cpu_isa={}: this machine, or this build, cannot run it; the fastest here is {}",
      cpu_isa_name(isa), cpu_isa_name(best_cpu_isa()));
  OpTable table;
  table.traits.name = "cpu:" + std::string(cpu_isa_name(isa));
  table.traits.vector_floats = isa <= CpuIsa::avx2 ? 8 : 16;
  table.traits.matrix_bf16 = isa == CpuIsa::amx;
#define VIADUCT_ADD_FAMILY(name) cpu::add_##name(table, isa);
  VIADUCT_OP_FAMILIES(VIADUCT_ADD_FAMILY)
#undef VIADUCT_ADD_FAMILY
  return table;
}

}  // namespace viaduct
