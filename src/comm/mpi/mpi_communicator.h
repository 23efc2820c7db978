#pragma once
// The communicator of ranks that are processes under MPI.

#include <memory>

#include "comm/communicator.h"
#include "comm/mpi/mpi_engine.h"

namespace viaduct {

/// Over the ranks of `group`, with its name.
std::shared_ptr<Communicator> make_mpi_communicator(std::shared_ptr<MpiEngine> engine,
                                                    std::shared_ptr<const MpiGroup> group);

/// Calls `f` with the group of `communicator`, which is one of the above, while nothing else calls
/// MPI; CommError otherwise.
void with_mpi_group(Communicator& communicator, FunctionRef<void(const MpiGroup&)> f);

}  // namespace viaduct
