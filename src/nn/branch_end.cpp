#include "nn/branch_end.h"

#include "nn/tensor_exchange.h"

namespace viaduct {
namespace {

/// Of what the linear layer returns. What goes into the sum as it is has the sum's format, so that
/// bits are the same in one product and in two ops; norms read, and tensor ranks exchange,
/// activations.
DType branch_format(const RankContext& context, const BranchEnd& end) {
  const bool direct = !end.norm && !sums_products(context);
  return direct ? context.settings.precision.stream : context.settings.precision.activation;
}

}  // namespace

Tensor end_branch(RankContext& context, const Batch& batch, const BranchEnd& end, const Tensor& x,
                  const Tensor& stream, SavedStore& saved) {
  if (!end.norm && !end.dropout.active(context) && end.linear.takes_epilogue(context)) {
    return end.linear.forward(context, x, saved, saved.output_tag(), {.residual = stream},
                              branch_format(context, end));
  }
  // A norm keeps its input.
  Tensor branch =
      end.linear.forward(context, x, saved, end.norm ? saved.tag() : MemoryTag::activations, {},
                         branch_format(context, end));
  if (end.norm) branch = end.norm->forward(context, branch, saved);
  return end.dropout.forward(context, batch, branch, stream, saved.output_tag());
}

}  // namespace viaduct
