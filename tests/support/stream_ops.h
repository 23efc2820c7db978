#pragma once
// Ops and communicators of a StreamDevice: they queue their work in its streams.

#include <memory>

#include "comm/communicator.h"
#include "ops/table.h"

namespace viaduct::test {

/// `table`, whose launches are queued in a StreamDevice and run its kernels.
OpTable queued(OpTable table);

/// `inner`, and all its splits: each operation begins when it is at the head of its stream, and
/// keeps that stream until it is complete. `inner` has no device of its own.
std::shared_ptr<Communicator> queued(std::shared_ptr<Communicator> inner);

}  // namespace viaduct::test
