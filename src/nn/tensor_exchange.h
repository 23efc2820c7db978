#pragma once
// What the tensor ranks exchange of the residual stream. Under sequence parallelism a rank holds
// its run of the tokens' rows, else all of them; in a group of one rank nothing is moved or copied.

#include "nn/context.h"

namespace viaduct {

/// The rows of all tokens [T, W] from the stream's rows here; contiguous.
Tensor gather_stream(RankContext& context, const Tensor& rows);

/// The stream's rows of the sum over the tensor ranks of `partial` [T, W], whose memory it may
/// take.
Tensor reduce_to_stream(RankContext& context, const Tensor& partial, MemoryTag tag);

}  // namespace viaduct
