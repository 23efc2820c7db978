#pragma once
// MPI's own collectives, which the backend does not use (their sums have no fixed order): what
// `viaduct bench collective` compares it with.

#include "comm/communicator.h"

namespace viaduct {

/// Does `request` over the ranks of `group` by MPI's blocking collective or, for a message,
/// MPI_Isend and MPI_Irecv. `group` is one that `run_mpi_rank` gave or a split of it; CommError
/// otherwise, and for what MPI has no type for (bf16 and f16 sums).
void mpi_own_collective(Communicator& group, const CommRequest& request);

/// Sends `out` to `to` and receives `in` from `from` by MPI_Sendrecv.
void mpi_own_send_receive(Communicator& group, const Tensor& out, int to, const Tensor& in,
                          int from);

}  // namespace viaduct
