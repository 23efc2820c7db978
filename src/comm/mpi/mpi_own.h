#pragma once
// MPI's own collectives, which the backend does not use (their sums have no fixed order): `viaduct
// bench collective` compares against them.

#include "comm/communicator.h"

namespace viaduct {

/// Runs `request` over the ranks of `group` by MPI's blocking collective or, for a message,
/// MPI_Isend and MPI_Irecv. `group` is the communicator that `run_mpi_rank` passes or a split of
/// it; CommError otherwise, and for types that MPI lacks (bf16 and f16 sums).
void mpi_own_collective(Communicator& group, const CommRequest& request);

/// Sends `out` to `to` and receives `in` from `from` by MPI_Sendrecv.
void mpi_own_send_receive(Communicator& group, const Tensor& out, int to, const Tensor& in,
                          int from);

}  // namespace viaduct
