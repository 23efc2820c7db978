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

/// Returns where no rank has an error; otherwise throws the same on every rank: the error of the
/// first rank that has one, which the message names. IoError if it was one, Error otherwise.
void throw_on_all(Communicator& group, const std::exception_ptr& error);

/// Runs `work` and returns when every rank's is done, or throws as throw_on_all. `work` does not
/// communicate.
void run_on_all(Communicator& group, FunctionRef<void()> work);

}  // namespace viaduct
