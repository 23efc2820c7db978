#pragma once
// Whole logical tensors on rank 0, from what all ranks hold of them: dumps and exports.

#include <string>
#include <vector>

#include "base/function_ref.h"
#include "checkpoint/logical_values.h"
#include "comm/communicator.h"

namespace viaduct {

/// Calls `visit(name, tensor)` on rank 0 of `world` for each logical tensor, by name: FP32, in its
/// logical shape on the host, factor · the values. Every rank calls it with the runs that count on
/// it: of copies on several data-parallel ranks one rank names the runs; of parts that are not
/// owned nothing is taken. Moves a bounded number of tensors at a time, each element once.
/// ShapeError on every rank unless each element of each tensor is there exactly once.
void gather_logical(Communicator& world, Device& device, const std::vector<StoredRun>& runs,
                    double factor,
                    FunctionRef<void(const std::string& name, const Tensor& tensor)> visit);

}  // namespace viaduct
