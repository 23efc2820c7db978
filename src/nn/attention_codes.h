#pragma once
// Attention in FP8: q, k, v and the gradient of the output as codes with one scale each, as the
// recipe says (mixed_precision.fp8_dot_product_attention), and the output as the operand that the
// projection reads (fp8_multi_head_attention). Scales span the tensor and context ranks of a
// micro-batch, or come from earlier steps; they are kept under the projection's weight. Context
// ranks send codes to each other.

#include "nn/context.h"
#include "nn/context_parallel/ring_attention.h"
#include "nn/delayed_scales.h"
#include "nn/parameter.h"
#include "nn/saved.h"

namespace viaduct {

/// Whether products of the attention before this projection are in FP8 (`projection` may be null),
/// and whether its output is passed on in FP8.
bool attends_in_fp8(const RankContext& context, const Parameter* projection);
bool hands_on_fp8(const RankContext& context, const Parameter* projection);

/// The heads as codes of e4m3, with their scales.
AttentionHeads codes_of_heads(RankContext& context, const Parameter& projection,
                              const AttentionHeads& heads, const SavedStore& saved);

/// A tensor [T, N, D] as codes, and their scale f32 [1].
struct HeadCodes {
  Tensor values, scale;
};
/// `operand` says which history is used: `input` for the attended values, `attended_gradient`.
HeadCodes codes_of(RankContext& context, const Parameter& projection, LayerOperand operand,
                   const Tensor& heads, MemoryTag tag, const SavedStore& saved);

/// Codes [T, N, D] of the forward as the operand [T, N · D] of a product.
Operand operand_of(const RankContext& context, const HeadCodes& codes);

}  // namespace viaduct
