#pragma once
// The trainers of all ranks of a run, each a thread of this process.

#include <functional>

#include "base/function_ref.h"
#include "ops/table.h"
#include "support/training.h"

namespace viaduct::test {

/// Calls `body` on every rank, with its trainer for the run that the overrides describe.
void with_trainers(const Overrides& overrides,
                   FunctionRef<void(Trainer& trainer, Communicator& world)> body);

/// The error of each rank of a run, empty where it has none. `between` is called on each rank after
/// each of its steps; `change`, on each rank's thread before, may replace its ops.
std::vector<std::string> errors_of_ranks(const RunSetup& setup,
                                         FunctionRef<void(int rank, int64_t step)> between,
                                         const std::function<void(OpTable& ops)>& change = {});

/// What each rank has after the run.
std::vector<RunOutcome> train_ranks(const Overrides& overrides);

}  // namespace viaduct::test
