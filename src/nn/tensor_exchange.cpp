#include "nn/tensor_exchange.h"

namespace viaduct {
namespace {

/// Whether the stream's rows are not all tokens'.
bool stream_is_cut(const RankContext& context) {
  return context.sequence_parallel && context.groups.tp->size() > 1;
}

}  // namespace

Tensor gather_stream(RankContext& context, const Tensor& rows) {
  if (!stream_is_cut(context)) return rows;
  Communicator& tp = *context.groups.tp;
  const Tensor all = context.ops.allocate(rows.dtype(), {rows.dim(0) * tp.size(), rows.dim(1)},
                                          MemoryTag::activations);
  tp.all_gather(rows, all).wait();
  return all;
}

Tensor reduce_to_stream(RankContext& context, const Tensor& partial, MemoryTag tag) {
  Communicator& tp = *context.groups.tp;
  if (!stream_is_cut(context)) {
    tp.all_reduce(partial, ReduceOp::sum).wait();
    return partial;
  }
  const Tensor rows =
      context.ops.allocate(partial.dtype(), {partial.dim(0) / tp.size(), partial.dim(1)}, tag);
  tp.reduce_scatter(partial, rows).wait();
  return rows;
}

}  // namespace viaduct
