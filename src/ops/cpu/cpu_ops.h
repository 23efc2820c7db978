#pragma once
// The table of ops of the cpu device for an instruction set. Families fill their entries; `cpu_ops`
// (cpu_ops.cpp) puts them together.

#include <vector>

#include "base/function_ref.h"
#include "hardware/cpu_isa.h"
#include "ops/table.h"

namespace viaduct {

/// The instruction sets whose kernels this machine can run, the fastest last: with products of BF16
/// in mind, which are what steps of BF16 wait for.
std::vector<CpuIsa> cpu_isas_by_speed();
/// The last of them.
CpuIsa best_cpu_isa();
/// Whether this machine can run kernels of `isa`: its CPU executes them, and tile registers are
/// granted and compute right.
bool cpu_supports(CpuIsa isa);

/// The table for `isa`; DeviceError if this machine cannot run it and `for_simulation` is false.
OpTable cpu_ops(CpuIsa isa, bool for_simulation = false);

namespace cpu {
/// Of a CPU with these features; `usable` says which it can run.
std::vector<CpuIsa> by_speed(const CpuFeatures& features, FunctionRef<bool(CpuIsa)> usable);

// What each family of the list adds to the table (ROOM/NAME_choose.cpp).
#define VIADUCT_DECLARE_FAMILY(name) void add_##name(OpTable& table, CpuIsa isa);
VIADUCT_OP_FAMILIES(VIADUCT_DECLARE_FAMILY)
#undef VIADUCT_DECLARE_FAMILY
}  // namespace cpu

}  // namespace viaduct
