#pragma once
// MPI's own collectives under the names of `viaduct bench collective`, for comparison.

#include <functional>
#include <string>

#include "comm/communicator.h"

namespace viaduct::cli {

/// One call of `op` by MPI itself over the ranks of `group`, which run under MPI; null if MPI has
/// no such sum (bf16, f16). `whole` and `other` hold all ranks' data, `part` one rank's share.
std::function<void()> mpi_own_call(Communicator& group, const std::string& op, const Tensor& whole,
                                   const Tensor& other, const Tensor& part);

}  // namespace viaduct::cli
