#pragma once
// The trainers of all ranks of a run, each a thread of this process.

#include "base/function_ref.h"
#include "support/training.h"

namespace viaduct::test {

/// Calls `body` on every rank, with its trainer for the run that the overrides describe.
void with_trainers(const Overrides& overrides,
                   FunctionRef<void(Trainer& trainer, Communicator& world)> body);

/// What each rank has after the run.
std::vector<RunOutcome> train_ranks(const Overrides& overrides);

}  // namespace viaduct::test
