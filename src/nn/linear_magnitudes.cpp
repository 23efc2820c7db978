// A linear layer whose low-rank terms have magnitudes (nn/low_rank.h).

#include "nn/linear.h"
#include "nn/overlapped_gemm.h"
#include "nn/tensor_exchange.h"
#include "ops/elementwise.h"

namespace viaduct {

Tensor Linear::magnitude_forward(RankContext& context, const GemmOverlap& row,
                                 const StreamProduct& product, const AdaptedInput& in,
                                 SavedStore& saved, MemoryTag tag) const {
  Tensor x = in.of_terms.tensor();
  const Tensor y = columns() && stream_is_cut(context)
                       ? gather_and_multiply(context, row, product, in.of_terms.tensor(), tag, &x)
                       : multiply(context, product, in.of_product, tag);
  const bool drops = terms_.drop(context);
  Tensor seen = terms_.dropped(context, x);
  StreamProduct of_seen = product;
  if (drops) of_seen.amax = operands_.amax(context, LayerOperand::input, seen, saved);
  const Tensor z = drops ? multiply(context, of_seen, seen, MemoryTag::activations) : y;
  if (drops) terms_.add_features(context, -1, z, y);
  terms_.add_to(context, terms_.reduce_dropped(context, seen, saved), z);
  seen = {};  // its memory, before norms and exchanges have theirs
  terms_.apply_magnitudes(context, *weight_, z, saved);
  if (drops) terms_.add_features(context, 1, z, y);
  return columns() ? y : reduce_to_stream(context, y, tag);
}

Tensor Linear::magnitude_input_gradient(RankContext& context, const Tensor& dy,
                                        SavedStore& saved) const {
  const AcquiredWeight weight(context.weights, *weight_, WeightUse::data_gradient);
  StreamProduct product{
      GemmForm::data_gradient,    weight.operand(), Tensor(), {}, {}, operands_.how(context), {},
      operands_.rounding(context)};
  const auto times_weight = [&](const Tensor& gradient) {
    product.amax = operands_.amax(context, LayerOperand::output_gradient, gradient, saved);
    return multiply(context, product, gradient, MemoryTag::activations);
  };
  const Tensor all = !columns() && stream_is_cut(context) ? gather_stream(context, dy) : dy;
  const Tensor dz = terms_.magnitude_gradients(context, all, saved);
  keep_gradient(context, dz, Tensor(), {}, saved);
  // Without dropout dx = dz · (W + s · B A).
  const Tensor& d_base = terms_.drop(context) ? all : dz;
  const Tensor dx = times_weight(d_base);
  log_operand(context, GemmForm::data_gradient, d_base, product.amax, product.rounding);
  Tensor d_dropped;
  if (terms_.drop(context)) {
    // The base's term of the dropped x has the factor f − 1: it is in y once without.
    const Tensor difference = context.activation(dz.shape(), MemoryTag::activations);
    scale(context.ops, {all, difference, -1});
    add(context.ops, {difference, dz, difference});
    d_dropped = times_weight(difference);
  }
  terms_.add_input_gradient(context, dz, dx, saved, d_dropped);
  return columns() ? reduce_to_stream(context, dx, MemoryTag::activations) : dx;
}

}  // namespace viaduct
