#pragma once
// Repeats a request to a backend on another communicator, for communicators that wrap another one.

#include "comm/communicator.h"

namespace viaduct {

/// A barrier is complete when it returns.
CommHandle start_request(Communicator& inner, const CommRequest& request);

}  // namespace viaduct
