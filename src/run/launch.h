#pragma once
// Starts the ranks of a run in a process, with or without a launcher.

#include <string>

#include "comm/dist_config.h"
#include "comm/launcher.h"
#include "comm/world.h"
#include "config/load.h"

namespace viaduct {

/// The launcher of this process, from its environment.
Launch launch_of_process();

/// Defaults of section `dist` in this process: the device, cuda where a GPU can be used; and what a
/// launcher sets, ranks, and threads of a rank from the ranks of this machine. Before it asks for a
/// GPU it sets the variables of section `env_vars` that the process reads from `given`, unless that
/// names another device: CUDA reads them when it starts.
DistConfig launch_defaults(const Launch& launch, const ConfigInput& given = {});

/// Why ranks compute on the cpu although this machine has the library for GPUs and the
/// configuration leaves the device open; else "".
std::string cpu_instead(const DistConfig& config);

/// ConfigError if dist.ranks differs from the launcher's number, if this build has no MPI for it,
/// or if torchrun's variables are set for ranks on the cpu device, which have no exchange of
/// tensors over TCP (the message has the `mpirun` line to use), or are not complete.
void check_started(const DistConfig& config, const Launch& launch);

/// Runs `rank_main` on the ranks of the run in this process: `dist.ranks` threads, or one rank of a
/// launcher.
/// Throws the first cause if a rank fails; ConfigError if dist.ranks differs from the launcher's
/// number.
void run_ranks(const DistConfig& config, const Launch& launch, RankMain rank_main);

}  // namespace viaduct
