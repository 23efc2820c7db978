#pragma once
// The host group of ranks that are processes under MPI.

#include <memory>

#include "comm/host_group.h"
#include "comm/mpi/mpi_engine.h"

namespace viaduct {

/// The host group over the ranks of `group`, with its own tags in the group's MPI communicator. One
/// per group.
std::shared_ptr<HostGroup> make_mpi_host_group(std::shared_ptr<MpiEngine> engine,
                                               std::shared_ptr<const MpiGroup> group);

}  // namespace viaduct
