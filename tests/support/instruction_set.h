#pragma once
// The instruction set that whole models run on in tests: the machine's best, or the one that the
// environment variable VIADUCT_TEST_ISA names, so that every suite can run on each.

#include <string>
#include <vector>

#include "ops/cpu/cpu_ops.h"

namespace viaduct::test {

/// DeviceError if the machine lacks the named instruction set.
CpuIsa instruction_set();

/// The same for a run's configuration: dist.cpu_isa=NAME, or nothing if the variable is not set.
std::vector<std::string> instruction_set_override();

}  // namespace viaduct::test
