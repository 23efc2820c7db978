#pragma once
// Exchanges of the residual stream between tensor ranks. Under sequence parallelism a rank holds
// the rows of its part of the tokens, else all rows; in a group of one rank nothing is moved or
// copied.

#include "nn/context.h"

namespace viaduct {

/// Whether a rank holds only part of the stream's rows.
bool stream_is_cut(const RankContext& context);
/// Whether the stream is a sum of several ranks' products: then a GEMM cannot have an epilogue.
bool sums_products(const RankContext& context);

/// A tensor that a collective is still writing.
class PendingTensor {
 public:
  PendingTensor(Tensor result, Tensor input, CommHandle handle)
      : result_(std::move(result)), input_(std::move(input)), handle_(std::move(handle)) {}
  /// A tensor that is complete.
  explicit PendingTensor(Tensor result) : result_(std::move(result)) {}
  /// The tensor once it is complete.
  Tensor wait();

 private:
  Tensor result_, input_;
  CommHandle handle_;
};

/// The rows of all tokens [T, W] from this rank's rows of the stream; contiguous. `on`: the
/// connection that carries them.
PendingTensor start_gather_stream(RankContext& context, const Tensor& rows,
                                  const ConnectionSettings& on = {});
Tensor gather_stream(RankContext& context, const Tensor& rows);

/// This rank's stream rows of the sum over the tensor ranks of `partial` [T, W], whose memory may
/// be reused for the result. `on`: the connection of a reduce-scatter.
PendingTensor start_reduce_to_stream(RankContext& context, const Tensor& partial, MemoryTag tag,
                                     const ConnectionSettings& on = {});
Tensor reduce_to_stream(RankContext& context, const Tensor& partial, MemoryTag tag);

}  // namespace viaduct
