#pragma once
// What one rank cannot do while it saves is an error on all. All ranks of a group call these in the
// same order.

#include <exception>
#include <string_view>

#include "base/function_ref.h"
#include "comm/communicator.h"

namespace viaduct {

/// Runs `work`, which does not communicate, and returns when every rank's is done: null, or, the
/// same on every rank, the error of the first rank whose work threw, which the message names. An
/// IoError if it was one, an Error otherwise. Throws CommError alone.
///
/// The work may take as long as it takes: it runs on a thread of its own, and meanwhile ranks tell
/// each other that they are alive, so no timeout of a collective counts it. After half a minute
/// rank 0 begins to say how many ranks are still at `what` ("writing the checkpoint").
std::exception_ptr try_on_all(Communicator& group, FunctionRef<void()> work, std::string_view what);
/// The same, throwing the error.
void run_on_all(Communicator& group, FunctionRef<void()> work, std::string_view what);

}  // namespace viaduct
