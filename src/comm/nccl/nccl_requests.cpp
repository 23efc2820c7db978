#include "comm/nccl/nccl_requests.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace viaduct {
namespace {

ncclDataType_t summed_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
      return ncclFloat16;
    case DType::f64:
      return ncclFloat64;
    case DType::i64:
      return ncclInt64;
    default:
      fail<CommError>("NCCL: sums of {} are not implemented", dtype_name(dtype));
  }
}

ncclRedOp_t operation(ReduceOp op) {
  return op == ReduceOp::sum ? ncclSum : op == ReduceOp::average ? ncclAvg : ncclMax;
}

size_t bytes_of(const Tensor& tensor) {
  return static_cast<size_t>(tensor.bytes());
}

/// Rows for and from each rank, this one included; pairs that exchange nothing make no call, on
/// either side.
ncclResult_t all_to_all(const NcclCalls& nccl, ncclComm_t on, CUstream_st* stream,
                        const CommRequest& r) {
  const auto row_bytes = [](const Tensor& tensor) {
    return tensor.dim(0) == 0 ? 0 : tensor.bytes() / tensor.dim(0);
  };
  const auto* from = static_cast<const char*>(r.in.raw());
  auto* to = static_cast<char*>(r.out.raw());
  for (size_t peer = 0; peer < r.send_rows.size(); ++peer) {
    const int64_t leave = r.send_rows[peer] * row_bytes(r.in);
    const int64_t arrive = r.receive_rows[peer] * row_bytes(r.out);
    const int other = static_cast<int>(peer);
    if (leave > 0) {
      const ncclResult_t sent =
          nccl.ncclSend(from, static_cast<size_t>(leave), ncclUint8, other, on, stream);
      if (sent != ncclSuccess && sent != ncclInProgress) return sent;
    }
    if (arrive > 0) {
      const ncclResult_t received =
          nccl.ncclRecv(to, static_cast<size_t>(arrive), ncclUint8, other, on, stream);
      if (received != ncclSuccess && received != ncclInProgress) return received;
    }
    from += leave;
    to += arrive;
  }
  return ncclSuccess;
}

}  // namespace

ncclResult_t call_nccl(const NcclCalls& nccl, ncclComm_t on, CUstream_st* stream,
                       const CommRequest& r, int peer) {
  switch (r.collective) {
    case Collective::all_reduce:
      return nccl.ncclAllReduce(r.in.raw(), r.out.raw(), static_cast<size_t>(r.in.elements()),
                                summed_type(r.in.dtype()), operation(r.op), on, stream);
    case Collective::reduce_scatter:
      return nccl.ncclReduceScatter(r.in.raw(), r.out.raw(), static_cast<size_t>(r.out.elements()),
                                    summed_type(r.in.dtype()), operation(r.op), on, stream);
    case Collective::all_gather:
      return nccl.ncclAllGather(r.in.raw(), r.out.raw(), bytes_of(r.in), ncclUint8, on, stream);
    case Collective::broadcast:
      return nccl.ncclBroadcast(r.in.raw(), r.out.raw(), bytes_of(r.in), ncclUint8, peer, on,
                                stream);
    case Collective::all_to_all:
      return all_to_all(nccl, on, stream, r);
    case Collective::send:
      return nccl.ncclSend(r.in.raw(), bytes_of(r.in), ncclUint8, peer, on, stream);
    case Collective::receive:
      return nccl.ncclRecv(r.out.raw(), bytes_of(r.out), ncclUint8, peer, on, stream);
    case Collective::barrier:
      break;
  }
  fail<CommError>("NCCL: {} is the hosts'", choice_name(r.collective));
}

bool moves_bytes(const CommRequest& request) {
  return (request.in.defined() && request.in.bytes() > 0) ||
         (request.out.defined() && request.out.bytes() > 0);
}

std::string describe_request(const CommRequest& request, const std::string& group) {
  const int64_t in = request.in.defined() ? request.in.bytes() : 0;
  const int64_t out = request.out.defined() ? request.out.bytes() : 0;
  return fmt::format("{} over {} ({} bytes)", choice_name(request.collective), group,
                     std::max(in, out));
}

}  // namespace viaduct
