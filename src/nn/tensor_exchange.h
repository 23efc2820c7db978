#pragma once
// What the tensor ranks exchange of the residual stream. Under sequence parallelism a rank holds
// its run of the tokens' rows, else all of them; in a group of one rank nothing is moved or copied.

#include "nn/context.h"

namespace viaduct {

/// Whether a rank's rows of the stream are not all tokens'.
bool stream_is_cut(const RankContext& context);
/// Whether the stream is a sum of products of several ranks: nothing may follow one in its GEMM.
bool sums_products(const RankContext& context);

/// A tensor that a collective is still writing.
class PendingTensor {
 public:
  PendingTensor(Tensor result, Tensor input, CommHandle handle)
      : result_(std::move(result)), input_(std::move(input)), handle_(std::move(handle)) {}
  /// A tensor that is there.
  explicit PendingTensor(Tensor result) : result_(std::move(result)) {}
  /// The tensor once it is there.
  Tensor wait();

 private:
  Tensor result_, input_;
  CommHandle handle_;
};

/// The rows of all tokens [T, W] from the stream's rows here; contiguous.
PendingTensor start_gather_stream(RankContext& context, const Tensor& rows);
Tensor gather_stream(RankContext& context, const Tensor& rows);

/// The stream's rows of the sum over the tensor ranks of `partial` [T, W], whose memory it may
/// take.
PendingTensor start_reduce_to_stream(RankContext& context, const Tensor& partial, MemoryTag tag);
Tensor reduce_to_stream(RankContext& context, const Tensor& partial, MemoryTag tag);

}  // namespace viaduct
