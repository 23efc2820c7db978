#pragma once
// Ops and communicators of a StreamDevice: they queue their work in its streams.

#include <functional>
#include <memory>

#include "comm/communicator.h"
#include "ops/table.h"

namespace viaduct::test {

/// `table` with queued launches: a StreamDevice queues them and runs its kernels; an op queue
/// queues those of the devices that it takes.
OpTable queued(OpTable table);

/// Another device with streams that runs ops on the host.
struct OpQueue {
  bool (*takes)(const Device& device) = nullptr;
  void (*push)(OpContext& context, std::string_view what, std::function<void()> work) = nullptr;
  const OpTable* kernels = nullptr;
};
void use_op_queue(const OpQueue& queue);

/// `inner` and all its splits: each operation begins when it reaches the head of its stream, and
/// occupies the stream until it is complete. `inner` has no device of its own.
std::shared_ptr<Communicator> queued(std::shared_ptr<Communicator> inner);

}  // namespace viaduct::test
