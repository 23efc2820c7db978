#pragma once
// Turns an error on one rank into the same error on all. All ranks of a group call these in the
// same order.

#include <exception>
#include <string_view>

#include "base/function_ref.h"
#include "comm/communicator.h"

namespace viaduct {

/// Runs `work`, which does not communicate, and returns when every rank's is done: null, or, equal
/// on every rank, the error of the first rank whose work threw; the message names the rank. IoError
/// if it was one, ConfigError with all its problems if it was one, Error otherwise. Throws only
/// CommError.
///
/// The work may take any time: it runs on its own thread while the ranks exchange heartbeats, so
/// the timeout of collectives does not apply. After half a minute rank 0 begins to log how many
/// ranks are still busy with `what` ("writing the checkpoint").
std::exception_ptr try_on_all(Communicator& group, FunctionRef<void()> work, std::string_view what);
/// The same, but throws the error.
void run_on_all(Communicator& group, FunctionRef<void()> work, std::string_view what);

}  // namespace viaduct
