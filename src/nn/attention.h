#pragma once
// The self-attention segment of a transformer block: (norm) → QKV → (QK norm) → rotary → attention
// → projection → (norm) → dropout → +.

#include <optional>

#include "nn/core_attention.h"
#include "nn/linear.h"
#include "nn/linear_bias.h"
#include "nn/norm.h"
#include "nn/residual.h"
#include "nn/rotary_embedding.h"
#include "nn/segment.h"
#include "nn/wide_norm.h"

namespace viaduct {

/// The layers that an attention segment is composed of. The QKV weight has rows [heads · D |
/// kv_heads · D | kv_heads · D].
struct AttentionParts {
  std::optional<Norm> input_norm;  // absent: the layers read the stream (OLMo 2)
  Linear qkv;
  std::optional<Norm> q_norm, k_norm;                // per head, before rotary
  std::optional<WideNorm> q_wide_norm, k_wide_norm;  // over all heads, before rotary
  RotaryEmbedding rotary;
  Linear projection;
  std::optional<Norm> output_norm;  // on the branch, before the residual (Gemma 2)
  ResidualDropout residual;
  std::shared_ptr<const Parameter> sinks;                         // [heads]; null: none
  std::shared_ptr<const LinearBiasTables> linear_bias = nullptr;  // ALiBi; null: none
};

class AttentionSegment final : public StreamSegment {
 public:
  AttentionSegment(AttentionSpec spec, AttentionParts parts, std::string_view path);

  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  /// The projection's weight gradient is made before the gradients of the heads: nothing else
  /// reads the attended values then.
  TensorSet backward(RankContext&, const Batch&, const TensorSet& d_out, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override;
  std::vector<const Parameter*> parameters() const override;
  std::string_view name() const override { return "attention"; }

 private:
  int64_t features() const override { return parts_.projection.weight()->shape[0]; }
  /// Both halves, or only the first: then the projection's weight gradient remains to be done.
  TensorSet backward_through(RankContext& context, const Batch& batch, const TensorSet& d_out,
                             SavedStore& saved, bool both);
  /// The unit qkv_linear: from the normed stream [T, H] to q [T, N, D], k and v [T, K, D].
  AttentionHeads project(RankContext& context, const Batch& batch, LinearInput normed,
                         SavedStore& saved) const;
  AttentionHeads heads_of(RankContext& context, const Batch& batch, LinearInput normed,
                          SavedStore& saved) const;
  /// Views of the three column ranges of [T, (N + 2K) D] as [T, heads, D].
  AttentionHeads split(const Tensor& qkv) const;
  /// Heads [T, heads, D] of a column range as rows [T, heads · D], and back.
  Tensor as_rows(const Tensor& heads) const;
  Tensor as_heads(const Tensor& rows) const;

  CoreAttention core_;
  AttentionParts parts_;
};

}  // namespace viaduct
