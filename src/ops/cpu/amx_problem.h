#pragma once
// Reports tile registers that the CPU has but that are not used: the machine is then slower than it
// could be.

#include <string>

#include "base/function_ref.h"

namespace viaduct {

/// Why AMX is not used on this machine although its CPU has it; "" if it is used, or if the CPU
/// lacks it. Checked once per process.
const std::string& amx_problem();

namespace cpu {

/// The same from its parts: `granted` by the kernel; `computes`: tile products give correct
/// results, called only if the registers may be used.
std::string amx_problem(bool cpu_has, bool granted, FunctionRef<bool()> computes);

}  // namespace cpu
}  // namespace viaduct
