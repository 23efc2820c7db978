#pragma once
// From the process that a launcher (or nobody) started to the ranks of a run.

#include "comm/dist_config.h"
#include "comm/launcher.h"
#include "comm/world.h"

namespace viaduct {

/// Who started this process, for ranks on the cpu device. ConfigError if it was torchrun, whose
/// variables are for GPUs; the message has the `mpirun` line to use.
Launch launch_on_cpu(const EnvironmentLookup& environment);
/// The same for this process's environment.
Launch launch_on_cpu();

/// What a launcher decides, as defaults of section `dist`: ranks, and threads of a rank from the
/// ranks of this machine.
DistConfig launch_defaults(const Launch& launch);

/// ConfigError if dist.ranks is not what the launcher started, or this build has no MPI for it.
void check_started(const DistConfig& config, const Launch& launch);

/// Runs `rank_main` on the ranks of the run that live in this process: `dist.ranks` threads, or the
/// one rank that MPI made of it. Throws the first cause if a rank fails; ConfigError if dist.ranks
/// is not what the launcher started.
void run_ranks(const DistConfig& config, const Launch& launch, RankMain rank_main);

}  // namespace viaduct
