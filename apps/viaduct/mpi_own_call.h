#pragma once
// MPI's own collectives behind the names of `viaduct bench collective`, to compare with.

#include <functional>
#include <string>

#include "comm/communicator.h"

namespace viaduct::cli {

/// One call of `op` by MPI itself over the ranks of `group`, which run under MPI; null where MPI
/// has no such sum (bf16, f16). `whole` and `other` are of all ranks, `part` is one rank's share.
std::function<void()> mpi_own_call(Communicator& group, const std::string& op, const Tensor& whole,
                                   const Tensor& other, const Tensor& part);

}  // namespace viaduct::cli
