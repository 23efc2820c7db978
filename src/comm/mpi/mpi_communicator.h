#pragma once
// The communicator of ranks that are processes under MPI.

#include <memory>

#include "comm/communicator.h"
#include "comm/mpi/mpi_engine.h"

namespace viaduct {

/// A communicator over the ranks of `group`, with its name.
std::shared_ptr<Communicator> make_mpi_communicator(std::shared_ptr<MpiEngine> engine,
                                                    std::shared_ptr<const MpiGroup> group);

/// Calls `f` with the group of `communicator`, which must be an MPI communicator (CommError
/// otherwise), while nothing else calls MPI.
void with_mpi_group(Communicator& communicator, FunctionRef<void(const MpiGroup&)> f);

/// What this rank has done for an MPI communicator: messages sent since it was made, those of its
/// host group included, and the memory kept for sums.
struct MpiTraffic {
  int64_t messages = 0;
  int64_t scratch_bytes = 0;
};
MpiTraffic mpi_traffic(Communicator& communicator);

}  // namespace viaduct
