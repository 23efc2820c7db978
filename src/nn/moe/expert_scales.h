#pragma once
// What quantized products of experts need in addition to their matrices: magnitudes from which
// operands of
// recipes with scales of whole matrices get theirs, one for each expert, and the counters of
// stochastic rounding.

#include "nn/batch.h"
#include "nn/delayed_scales.h"
#include "nn/moe/moe_edges.h"
#include "nn/saved.h"
#include "ops/gemm.h"

namespace viaduct {

/// How the products that read this weight of experts are quantized.
Quantization quantization_of(const RankContext& context, const Parameter& weight);

/// f32 [1, E'] for the E' experts here: the largest magnitude for which the scale of each one's
/// operand is made; [2, E'] with that of its rotated rows. Undefined without such scales. `matrix`:
/// the rows [A, ..] of all experts by `offsets`. A maximum spans the ranks that hold parts of the
/// operand: those of an expert, and also ranks that have tokens of the micro-batch but do not
/// exchange them; with AmaxSource::own only this rank. With delayed scaling it comes from earlier
/// steps, and this magnitude is recorded.
Tensor expert_amax(RankContext& context, const MoeConfig& moe, const ExpertPlace& place,
                   const Parameter& weight, LayerOperand operand, const Tensor& matrix,
                   const Tensor& offsets, const SavedStore& saved);

/// Of these magnitudes those f32 [E'] for the operands of `form`; undefined where it is not
/// quantized.
Tensor amax_for(const Quantization& quantization, GemmForm form, const Tensor& amax);

/// i64 [1]: the first token of the ranks that exchange tokens, where the rounding of rows of
/// experts counts from; undefined unless the recipe rounds stochastically. All ranks of the group
/// call it.
Tensor first_token(RankContext& context, const ExpertPlace& place, const Batch& batch);

/// How gradients of the output of `weight`'s products are rounded.
StochasticRounding expert_rounding(const RankContext& context, const Parameter& weight,
                                   const Tensor& first_token);

}  // namespace viaduct
