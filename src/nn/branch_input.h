#pragma once
// What the experts of a parallel block read (nn/parallel_block.h): its attention, a segment of its
// own then, passes it on beside the stream.

#include "nn/segment.h"

namespace viaduct {

/// [T, H]: the block's input, or, where both branches have one norm, what that makes of it.
inline constexpr std::string_view kBranchInput = "branch_input";

/// Its declaration, for `hidden` features; `normed`: it is the norm's result.
inline EdgeTensor branch_input_edge(const RankContext& context, const Batch& batch, int64_t hidden,
                                    bool normed) {
  EdgeTensor edge = stream_edge(context, batch, hidden);
  edge.name = kBranchInput;
  if (normed) edge.dtype = context.settings.precision.activation;
  return edge;
}

}  // namespace viaduct
