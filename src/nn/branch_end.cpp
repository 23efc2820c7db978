#include "nn/branch_end.h"

namespace viaduct {

Tensor end_branch(RankContext& context, const Batch& batch, const BranchEnd& end, const Tensor& x,
                  const Tensor& stream, SavedStore& saved) {
  if (!end.norm && !end.dropout.active(context) && end.linear.takes_epilogue(context)) {
    return end.linear.forward(context, x, saved, MemoryTag::saved, {.residual = stream});
  }
  Tensor branch = end.linear.forward(context, x, saved, MemoryTag::activations);
  if (end.norm) branch = end.norm->forward(context, branch, saved);
  return end.dropout.forward(context, batch, branch, stream);
}

}  // namespace viaduct
