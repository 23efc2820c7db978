#pragma once
// Who started this process: nobody, MPI or torchrun. One rank is all there is so far, so that a
// launcher that starts several is refused rather than letting each train alone into one folder.

#include "comm/launcher.h"

#include "comm/dist_config.h"
#include "comm/world.h"

namespace viaduct {

/// ConfigError if the environment is that of torchrun (on cpu MPI starts the ranks; the message has
/// the `mpirun` line to use) or of a launcher with more than one rank.
void check_launch(const EnvironmentLookup& environment);

/// Runs `rank_main` on every rank of the run that lives in this process: `dist.ranks` threads.
/// Throws the first cause if a rank fails.
void run_ranks(const DistConfig& config, RankMain rank_main);

}  // namespace viaduct
