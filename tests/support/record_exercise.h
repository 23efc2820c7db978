#pragma once
// Compares the records of all ranks of a world for the same operations.

#include <memory>

#include "comm/communicator.h"

namespace viaduct::test {

/// Runs collectives, messages and host calls of the world and of a part of it with a record
/// attached. Throws std::runtime_error on each rank unless the ranks' records agree about every one
/// of them: group, members, sequence number, bytes; and every send has its receive. All ranks of
/// the world call it.
void exercise_records(const std::shared_ptr<Communicator>& world);

}  // namespace viaduct::test
