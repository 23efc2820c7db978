#pragma once
// A request as calls of NCCL.

#include <vector>

#include "comm/communicator.h"
#include "comm/nccl/nccl_calls.h"

namespace viaduct {

/// Makes the calls of a checked request; `peer`: the root or the other end, as a rank of the
/// connection. The caller has begun a group.
ncclResult_t call_nccl(const NcclCalls& nccl, ncclComm_t on, CUstream_st* stream,
                       const CommRequest& request, int peer);
/// Whether any data move.
bool moves_bytes(const CommRequest& request);

/// "all_reduce over dp (4096 bytes)".
std::string describe_request(const CommRequest& request, const std::string& group);

}  // namespace viaduct
