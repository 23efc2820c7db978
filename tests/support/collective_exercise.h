#pragma once
// Collectives and messages of every kind, each checked bit by bit against plain loops that know
// what every rank put in. Any backend can be put through it.

#include <memory>

#include "comm/communicator.h"

namespace viaduct::test {

/// All ranks of `world` call it. Throws std::runtime_error that says what differed.
void exercise(const std::shared_ptr<Communicator>& world);

}  // namespace viaduct::test
