#pragma once
// Who started this process, read from environment variables: nobody, a launcher of MPI programs
// (mpirun, srun …) or a torchrun-style one.

#include <functional>
#include <string>

namespace viaduct {

/// The value of an environment variable, or null.
using EnvironmentLookup = std::function<const char*(const char* name)>;

enum class Launcher { none, mpi, torchrun };

struct Launch {
  Launcher launcher = Launcher::none;
  int ranks = 1;         // of the world
  int local_ranks = 1;   // on this machine; 1 where the launcher does not say
  int rank = 0;          // of this process, under MPI; 0 where the launcher does not say
  std::string variable;  // what `ranks` was read from, "OMPI_COMM_WORLD_SIZE"; empty without one
};

/// MPI wins where variables of both are set (torchrun's are common in scripts). ConfigError for a
/// number of ranks that is none.
Launch detect_launch(const EnvironmentLookup& environment);

}  // namespace viaduct
