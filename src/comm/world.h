#pragma once
// How ranks are started: as threads of this process, or as processes of a launcher. In both cases a
// rank's program is one function of its world communicator.

#include <memory>
#include <string>

#include "base/function_ref.h"
#include "comm/communicator.h"

namespace viaduct {

struct WorldOptions {
  /// An operation that waits longer for a rank is a CommError that lists the missing ranks.
  double timeout_seconds = 600;
  /// Computing threads of a rank. If all ranks together have more than the cores, a waiting rank
  /// yields its core at once.
  int threads_per_rank = 1;
  /// Processes: the time that the launcher and MPI's own clean-up have to end this process when the
  /// run is over or has failed; then it ends itself, with a failing status.
  int exit_grace_seconds = 60;
};

using RankMain = FunctionRef<void(std::shared_ptr<Communicator> world)>;

/// Runs `rank_main` once for each of `ranks` ranks, each on a thread of its own (rank 0 on the
/// calling one), and returns when all have ended. If a rank throws, all others leave their
/// operations, and the first cause is thrown here.
void run_thread_ranks(int ranks, const WorldOptions& options, RankMain rank_main);

/// Runs `rank_main` as this process's rank of the world that mpirun or srun started: MPI begins and
/// ends here, once per process. Returns when all ranks have ended. If a rank throws, all others
/// leave their operations; the first cause is thrown in the process where it arose, which must end
/// with a failing status, and no other returns: the launcher ends them, or after 75 seconds
/// MPI_Abort. So one process reports one cause. CommError if MPI has a different number of ranks
/// than the launcher's variables.
void run_mpi_rank(const WorldOptions& options, RankMain rank_main);

/// The MPI library, "Open MPI v4.1.4"; empty in a build without MPI, in which `run_mpi_rank` throws
/// a ConfigError. Does not start MPI.
std::string mpi_library();

}  // namespace viaduct
