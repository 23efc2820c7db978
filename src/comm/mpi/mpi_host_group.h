#pragma once
// The host group of ranks that are processes under MPI.

#include <memory>

#include "comm/host_group.h"
#include "comm/mpi/mpi_engine.h"

namespace viaduct {

/// Over the ranks of `group`, in whose MPI communicator it has tags of its own. One for each group.
std::shared_ptr<HostGroup> make_mpi_host_group(std::shared_ptr<MpiEngine> engine,
                                               std::shared_ptr<const MpiGroup> group);

}  // namespace viaduct
