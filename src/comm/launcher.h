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
  int ranks = 1;        // of the world
  int local_ranks = 1;  // on this machine; 1 if the launcher does not set it
  int rank = 0;         // of this process; 0 if the launcher does not set it
  // Of torchrun's variables alone, where all ranks meet: "" and 0 where they are not set.
  std::string meeting_host;
  int meeting_port = 0;
  int local_rank = 0;    // LOCAL_RANK; the rank if that is not set
  std::string variable;  // source of `ranks`, "OMPI_COMM_WORLD_SIZE"; empty without one
  /// Open MPI's mpirun has no time set for ranks that it stops: it kills them a second after it
  /// passed Ctrl-C or SIGTERM on, which it does a second late.
  bool short_notice = false;
};

/// MPI wins if variables of both are set (torchrun's are common in scripts). ConfigError for an
/// invalid number of ranks, rank or port. Where torchrun's agent listens at MASTER_PORT itself
/// (TORCHELASTIC_USE_AGENT_STORE), ranks meet at the next port.
Launch detect_launch(const EnvironmentLookup& environment);

/// The number of `rank` among those of its machine: with MPI from its place in the world (ranks of
/// a machine follow each other), with torchrun LOCAL_RANK of this process.
int local_rank(const Launch& launch, int rank);

}  // namespace viaduct
