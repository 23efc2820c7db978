#pragma once
// A request of a backend, made again to another communicator: what communicators that stand before
// another one do.

#include "comm/communicator.h"

namespace viaduct::test {

/// A barrier is over when it returns.
CommHandle start_request(Communicator& inner, const CommRequest& request);

}  // namespace viaduct::test
