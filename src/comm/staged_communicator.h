#pragma once
// Collectives of ranks whose devices have memory of their own, through a communicator that
// exchanges host memory (between threads, or by MPI).

#include <memory>

#include "comm/communicator.h"

namespace viaduct {

/// `inner` and all its splits, for a device with side streams (`record_on`, before the first
/// operation). An operation copies its input to the host on its stream. The host passes it to
/// `inner` when it next waits for other ranks, and copies the result back when the operation is
/// waited for. So hosts wait where devices with their own network would not. `inner` has no
/// device.
std::shared_ptr<Communicator> make_staged_communicator(std::shared_ptr<Communicator> inner);

}  // namespace viaduct
