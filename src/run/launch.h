#pragma once
// Starts the ranks of a run in a process, with or without a launcher.

#include "comm/dist_config.h"
#include "comm/launcher.h"
#include "comm/world.h"

namespace viaduct {

/// The launcher of this process, for ranks on the cpu device. ConfigError for torchrun, whose
/// variables are for GPUs; the message has the `mpirun` line to use.
Launch launch_on_cpu(const EnvironmentLookup& environment);
/// The same for this process's environment.
Launch launch_on_cpu();

/// Values set by a launcher, as defaults of section `dist`: ranks, and threads of a rank from the
/// ranks of this machine.
DistConfig launch_defaults(const Launch& launch);

/// ConfigError if dist.ranks differs from the launcher's number, or if this build has no MPI for
/// it.
void check_started(const DistConfig& config, const Launch& launch);

/// Runs `rank_main` on the ranks of the run in this process: `dist.ranks` threads, or one MPI rank.
/// Throws the first cause if a rank fails; ConfigError if dist.ranks differs from the launcher's
/// number.
void run_ranks(const DistConfig& config, const Launch& launch, RankMain rank_main);

}  // namespace viaduct
