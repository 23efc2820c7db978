#include "nn/branch_begin.h"

#include <utility>

#include "ops/elementwise.h"

namespace viaduct {

LinearInput begin_branch(RankContext& context, std::string_view unit,
                         const std::optional<Norm>& norm, const Linear& linear,
                         const Tensor& stream, SavedStore& saved) {
  if (norm) {
    ProducedForms forms = linear.allocate_input_forms(context, stream.dim(0));
    const Tensor normed = norm->forward_unit(unit, context, stream, saved, forms);
    return {normed, std::move(forms)};
  }
  if (stream.dtype() == context.settings.precision.activation) return stream;
  const Tensor rounded = context.activation(stream.shape(), saved.tag());
  copy(context.ops, {stream, rounded});
  return rounded;
}

Tensor begin_branch_backward(RankContext& context, const std::optional<Norm>& norm,
                             const Tensor& d_input, const Tensor& d_stream, SavedStore& saved) {
  const Tensor d_in = context.stream(d_stream.shape(), MemoryTag::activations);
  if (norm) {
    norm->backward(context, d_input, d_stream, d_in, saved);
  } else {
    add(context.ops, {d_stream, d_input, d_in});
  }
  return d_in;
}

}  // namespace viaduct
