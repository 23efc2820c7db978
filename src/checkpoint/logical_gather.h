#pragma once
// Gathers whole logical tensors on rank 0 from all ranks, for dumps and exports.

#include <string>
#include <vector>

#include "base/function_ref.h"
#include "checkpoint/logical_values.h"
#include "comm/communicator.h"

namespace viaduct {

/// Calls `visit(name, tensor)` on rank 0 of `world` for each logical tensor, by name: FP32, in its
/// logical shape on the host, as factor · the values. Every rank calls it with the runs that it
/// contributes: if data-parallel ranks hold copies of a run, one of them passes it; parts that are
/// not owned are skipped. Moves a bounded number of tensors at a time, each element once.
/// ShapeError on every rank unless each element of each tensor is contributed exactly once.
void gather_logical(Communicator& world, Device& device, const std::vector<StoredRun>& runs,
                    double factor,
                    FunctionRef<void(const std::string& name, const Tensor& tensor)> visit);

}  // namespace viaduct
