#pragma once
// Who started this process: nobody, MPI or torchrun. One rank is all there is so far, so that a
// launcher that starts several is refused rather than letting each train alone into one folder.

#include "comm/launcher.h"

namespace viaduct {

/// ConfigError if the environment is that of torchrun (on cpu MPI starts the ranks; the message has
/// the `mpirun` line to use) or of a launcher with more than one rank.
void check_launch(const EnvironmentLookup& environment);

}  // namespace viaduct
