#pragma once
// The end of a block's branch, forward: linear → (norm) → (factor) → dropout → + residual, in one
// product if neither norm, factor nor active dropout is in between.

#include <optional>

#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/residual.h"

namespace viaduct {

/// The layers of a segment that end its branch.
struct BranchEnd {
  const Linear& linear;
  const std::optional<Norm>& norm;
  const ResidualDropout& dropout;
};

/// The stream after the branch, from the input of its last linear layer and the stream before;
/// undefined where it is not read (`SavedStore::output_is_read`). `tag`: of the stream after the
/// branch, which mostly is the segment's output.
Tensor end_branch(RankContext& context, const Batch& batch, const BranchEnd& end, LinearInput x,
                  const Tensor& stream, SavedStore& saved, MemoryTag tag);

}  // namespace viaduct
