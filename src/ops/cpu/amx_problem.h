#pragma once
// Tile registers that the CPU has and that are not used: a machine that is slower than it could be
// has to say so.

#include <string>

#include "base/function_ref.h"

namespace viaduct {

/// Why AMX is not used on this machine though its CPU has it; "" where it is used, or where there
/// is none. Asked once a process.
const std::string& amx_problem();

namespace cpu {

/// The same from its parts: `granted` by the kernel; `computes`: what tile products make is right,
/// asked only where the registers may be touched.
std::string amx_problem(bool cpu_has, bool granted, FunctionRef<bool()> computes);

}  // namespace cpu
}  // namespace viaduct
