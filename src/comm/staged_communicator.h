#pragma once
// Collectives of ranks whose devices have memory of their own, by a communicator that exchanges
// host memory (between threads, or by MPI).

#include <memory>

#include "comm/communicator.h"

namespace viaduct {

/// `inner` and all its splits, for a device with side streams (`record_on`, before the first
/// operation). An operation copies its input to the host on its stream. The host hands it to
/// `inner` when it next waits for other ranks, and copies the result back when the operation is
/// waited for: so hosts wait where devices with a network of their own would not. `inner` has no
/// device.
std::shared_ptr<Communicator> make_staged_communicator(std::shared_ptr<Communicator> inner);

}  // namespace viaduct
