#pragma once
// Collectives and messages of every kind, each checked bit by bit against plain loops that know
// what every rank put in. Any backend can be put through it.

#include <memory>

#include "comm/communicator.h"

namespace viaduct::test {

/// All ranks of `world` call it. Throws std::runtime_error that says what differed.
void exercise(const std::shared_ptr<Communicator>& world);
/// Fewer turns, for dozens of ranks, with all ways in which large groups do them.
void exercise_large(Communicator& world);
/// What hosts tell each other: figures, short and long texts, merges in the order of ranks.
void exercise_hosts(HostGroup& host);

}  // namespace viaduct::test
