#pragma once
// What ranks tell each other while they save and gather: short texts, and whether one of them
// failed. All ranks of a group call these in the same order.

#include <exception>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "comm/communicator.h"

namespace viaduct {

/// Every rank's `text` (any bytes), in rank order, on every rank.
std::vector<std::string> exchange_texts(Communicator& group, const std::string& text);

/// Runs `work`, which does not communicate, and returns when every rank's is done: null, or, the
/// same on every rank, the error of the first rank whose work threw, which the message names. An
/// IoError if it was one, an Error otherwise. Throws CommError alone.
std::exception_ptr try_on_all(Communicator& group, FunctionRef<void()> work);
/// The same, throwing the error.
void run_on_all(Communicator& group, FunctionRef<void()> work);

}  // namespace viaduct
