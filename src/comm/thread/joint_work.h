#pragma once
// The work of an operation once all its ranks have arrived: sums and copies between their buffers,
// in units that any thread may do in any order and in pieces.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "comm/communicator.h"

namespace viaduct {

/// A rank's request in one cache line: the fields that other ranks need.
struct alignas(64) Ask {
  Ask() = default;
  explicit Ask(const CommRequest& asked);

  Collective collective = Collective::barrier;
  ReduceOp op = ReduceOp::sum;
  int peer = -1;
  DType dtype = DType::f32;
  uint32_t shape = 0;  // hash of the shape; of the elements for messages
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  int64_t in_bytes = 0, out_bytes = 0;
  const CommRequest* request = nullptr;  // null: the rank has not arrived yet
};
static_assert(sizeof(Ask) == 64);

/// By rank of the group; for a message: sender, receiver.
using Asks = std::span<const Ask>;

/// "all_reduce (sum) of f32 [4]": for messages.
std::string describe(const CommRequest& request);

/// Why the requests do not match, naming two ranks that differ; empty if they match.
std::string mismatch(Asks asks);

/// Units of work: elements where something is summed, else bytes; 0 for barriers.
int64_t work_units(Asks asks);

/// Does the units [begin, end). Reads and writes buffers of all ranks.
void do_work(Asks asks, int64_t begin, int64_t end) noexcept;

}  // namespace viaduct
