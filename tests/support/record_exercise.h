#pragma once
// What all ranks of a world record of the same operations, compared.

#include <memory>

#include "comm/communicator.h"

namespace viaduct::test {

/// Runs collectives, messages and host calls of the world and of a part of it with a record
/// attached; std::runtime_error on each rank unless the ranks' records agree about every one of
/// them: group, members, number in the sequence, bytes; every send has its receive. All ranks of
/// the world call it.
void exercise_records(const std::shared_ptr<Communicator>& world);

}  // namespace viaduct::test
