#include "nn/branch_end.h"

#include <utility>

#include "nn/tensor_exchange.h"

namespace viaduct {
namespace {

/// Format of the linear layer's result. If it is added directly, it has the sum's format, so that
/// one product with epilogue and two ops give the same bits; norms read, and tensor ranks exchange,
/// activations.
DType branch_format(const RankContext& context, const BranchEnd& end) {
  const bool direct = !end.norm && !sums_products(context);
  return direct ? context.settings.precision.stream : context.settings.precision.activation;
}

}  // namespace

Tensor end_branch(RankContext& context, const Batch& batch, const BranchEnd& end, LinearInput x,
                  const Tensor& stream, SavedStore& saved, MemoryTag tag) {
  const bool read = saved.output_is_read();
  if (!read && !end.norm) {
    end.linear.keep(context, x, saved);
    return {};
  }
  if (!end.norm && end.dropout.only_adds(context) && end.linear.takes_epilogue(context)) {
    return end.linear.forward(context, std::move(x), saved, tag, {.residual = stream},
                              branch_format(context, end));
  }
  // branch [stream tokens, H] = x · Wᵀ + b. A norm keeps its input.
  Tensor branch = end.linear.forward(context, std::move(x), saved,
                                     end.norm ? saved.tag() : MemoryTag::activations, {},
                                     branch_format(context, end));
  if (end.norm) branch = end.norm->forward(context, branch, saved);
  if (!read) return {};
  return end.dropout.forward(context, batch, branch, stream, tag);
}

}  // namespace viaduct
