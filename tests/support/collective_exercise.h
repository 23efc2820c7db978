#pragma once
// Collectives and messages of every kind, each checked bit by bit against plain loops over every
// rank's input. Works with any backend.

#include <memory>

#include "comm/communicator.h"

namespace viaduct::test {

/// All ranks of `world` call it. Throws std::runtime_error with the difference.
void exercise(const std::shared_ptr<Communicator>& world);
/// Fewer turns, for dozens of ranks, with all algorithms of large groups.
void exercise_large(Communicator& world);
/// HostGroup: figures, short and long texts, merges in the order of ranks.
void exercise_hosts(HostGroup& host);

}  // namespace viaduct::test
