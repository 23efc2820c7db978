#pragma once
// How this process was started, read from environment variables: without a launcher, by a launcher
// of MPI programs (mpirun, srun …) or by a torchrun-style one.

#include <functional>
#include <string>

namespace viaduct {

/// The value of an environment variable, or null.
using EnvironmentLookup = std::function<const char*(const char* name)>;

enum class Launcher { none, mpi, torchrun };

struct Launch {
  Launcher launcher = Launcher::none;
  int ranks = 1;         // of the world
  int local_ranks = 1;   // on this machine; 1 if the launcher does not set it
  int rank = 0;          // of this process, under MPI; 0 if the launcher does not set it
  std::string variable;  // source of `ranks`, "OMPI_COMM_WORLD_SIZE"; empty without one
};

/// MPI wins if variables of both are set (torchrun's are common in scripts). ConfigError for an
/// invalid number of ranks.
Launch detect_launch(const EnvironmentLookup& environment);

}  // namespace viaduct
