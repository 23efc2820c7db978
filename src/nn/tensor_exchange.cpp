#include "nn/tensor_exchange.h"

#include <utility>

namespace viaduct {

bool stream_is_cut(const RankContext& context) {
  return context.settings.sequence_parallel && !context.whole_stream &&
         context.groups.tp().size() > 1;
}

bool sums_products(const RankContext& context) {
  return context.groups.tp().size() > 1;
}

Tensor PendingTensor::wait() {
  handle_.wait();
  input_ = Tensor();
  return std::exchange(result_, Tensor());
}

PendingTensor start_gather_stream(RankContext& context, const Tensor& rows,
                                  const ConnectionSettings& on) {
  if (!stream_is_cut(context)) return {rows, rows, CommHandle()};
  Communicator& tp = context.groups.tp();
  const Tensor all = context.ops.allocate(rows.dtype(), {rows.dim(0) * tp.size(), rows.dim(1)},
                                          MemoryTag::activations);
  return {all, rows, tp.all_gather(rows, all, on)};
}

Tensor gather_stream(RankContext& context, const Tensor& rows) {
  return start_gather_stream(context, rows).wait();
}

PendingTensor start_reduce_to_stream(RankContext& context, const Tensor& partial, MemoryTag tag,
                                     const ConnectionSettings& on) {
  // One rank sums nothing: streams would wait for each other in vain.
  if (!sums_products(context)) return PendingTensor(partial);
  Communicator& tp = context.groups.tp();
  if (!stream_is_cut(context)) return {partial, partial, tp.all_reduce(partial, ReduceOp::sum)};
  const Tensor rows =
      context.ops.allocate(partial.dtype(), {partial.dim(0) / tp.size(), partial.dim(1)}, tag);
  return {rows, partial, tp.reduce_scatter(partial, rows, ReduceOp::sum, on)};
}

Tensor reduce_to_stream(RankContext& context, const Tensor& partial, MemoryTag tag) {
  return start_reduce_to_stream(context, partial, tag).wait();
}

}  // namespace viaduct
