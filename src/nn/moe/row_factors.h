#pragma once
// The gradient of the router's weights, without the results of experts. combine sums a token's
// results by weight: out[t] = Σ w[t, j] · result[row]. With a factor f = 1 of each row's result its
// gradient is ∂f = w · (d_out[t] · result[row]) = w · ∂w. Experts take it from what they have
// anyway: with a linear second product, result = W · activated + bias, and its incoming gradient
// d_result = w · d_out[t], it is
//   ∂f = d_result · result = (Wᵀ · d_result) · activated + d_result · bias.
// Where an expert is cut over `copies` ranks, each has its features' part of the first product. ∂f
// goes home with the rows' gradients, and dispatch divides by w. Megatron-Core weighs the rows of
// `activated` instead, and sends the weights to the experts for it; results are kept by neither.

#include "nn/context.h"

namespace viaduct {

/// moe_edge::row_factors in the forward, where they have no values.
Tensor no_row_factors(RankContext& context, MemoryTag tag);

/// ∂w, as `weight` [T, k], from ∂f [R, 1] of the rows at `position` i32 [T, k · copies]: 0 for
/// choices without a row, and for weights of 0.
Tensor weight_gradient(RankContext& context, const Tensor& d_factors, const Tensor& position,
                       const Tensor& weight, int64_t copies);

}  // namespace viaduct
