#pragma once
// mpi.h, for the .cpp files of this folder that call MPI; no header includes this one.

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <vector>

#include "comm/mpi/mpi_network.h"

namespace viaduct {

struct MpiGroup::Handle {
  MPI_Comm comm;
  // Buffers of a poll of the group's operation; one poll runs at a time.
  mutable std::vector<MPI_Status> statuses;
  mutable std::vector<int> indices;
  mutable std::vector<Transfer> done;
  mutable int64_t sent;  // messages
};

/// CommError with MPI's text unless `code` is success. `call` is the function's name.
void check_mpi(int code, const char* call);

}  // namespace viaduct
