#pragma once
// What has to be done once all ranks of an operation have come: sums and copies between their
// buffers, in units that any thread may do in any order and in pieces.

#include <cstdint>
#include <span>
#include <string>

#include "comm/communicator.h"

namespace viaduct {

/// One request per rank of the group, in rank order; for a message the sender's and the receiver's.
using Requests = std::span<const CommRequest* const>;

/// "all_reduce (sum) of f32 [4]": for messages.
std::string describe(const CommRequest& request);

/// Why the requests do not fit together, naming two ranks that differ; empty if they do.
std::string mismatch(Requests requests);

/// Units of work: elements where something is summed, else bytes; 0 for barriers.
int64_t work_units(Requests requests);

/// Does the units [begin, end). Reads and writes buffers of all ranks.
void do_work(Requests requests, int64_t begin, int64_t end) noexcept;

}  // namespace viaduct
