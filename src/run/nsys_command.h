#pragma once
// The command line that has Nsight Systems watch a run (profiling.use_nsys_profiler): a profiler is
// attached when a program starts, and what it records is decided there.

#include <string>
#include <vector>

#include "comm/launcher.h"
#include "run/train_config.h"

namespace viaduct {

/// What `nsys profile --trace` takes on Linux, without "none".
std::vector<std::string> nsys_traces();

/// Whether a profiler was attached to this process when it started, by the variables that Nsight
/// Systems and other tools for CUDA set in it.
bool profiler_watches(const EnvironmentLookup& environment);

/// "nsys profile --trace=nvtx,cuda … viaduct train a.yaml": this program's own command line (its
/// arguments, quoted for a shell where they need it) under the profiler.
std::string nsys_command(const ProfilingConfig& config, const std::vector<std::string>& program);

/// The command line of this process; "viaduct train …" where the system does not say.
std::vector<std::string> program_of_process();

}  // namespace viaduct
