#pragma once
// Cross attention of a decoder's block: queries of the residual stream over keys and values of the
// encoder's output: (norm) → Q, encoded → KV → attention → projection → dropout → +.

#include <optional>

#include "nn/core_attention.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/residual.h"
#include "nn/segment.h"

namespace viaduct {

/// The layers of the segment. The key-value weight has rows [kv_heads · D | kv_heads · Dv].
struct CrossAttentionParts {
  std::optional<Norm> input_norm;  // absent: the layers read the stream
  Linear query, key_value, projection;
  ResidualDropout residual;
  bool input_gradient = true;  // of the encoder's output: something in front of it trains
};

class CrossAttentionSegment final : public Segment {
 public:
  /// `spec`: crosses. `last`: no later block reads the encoder's output, which is not passed on.
  CrossAttentionSegment(AttentionSpec spec, CrossAttentionParts parts, std::string_view path,
                        bool last);

  Edge inputs(const RankContext&, const Batch&) const override;
  std::vector<std::string_view> outputs() const override;
  bool makes(std::string_view output, const Batch& batch) const override;
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  TensorSet backward(RankContext&, const Batch&, const TensorSet& d_out, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override;
  std::vector<const Parameter*> parameters() const override;
  std::string_view name() const override { return "cross_attention"; }

 private:
  /// The gradient d [T', K, D] of keys and [T', K, Dv] of values, as far as something needs it:
  /// that of the encoder's output, with the one of the blocks behind in `d_out`, goes to `d_in`.
  void key_value_gradient(RankContext& context, const Batch& batch, const AttentionHeads& d,
                          const TensorSet& d_out, SavedStore& saved, TensorSet& d_in) const;
  /// Both halves, or only the first: then the projection's weight gradient remains to be done.
  TensorSet backward_through(RankContext& context, const Batch& batch, const TensorSet& d_out,
                             SavedStore& saved, bool both);
  /// The unit qkv_linear: q [T, N, D] of the normed stream [T, H], k and v [T', K, D] of the
  /// encoder's T' tokens.
  AttentionHeads project(RankContext& context, const Batch& batch, LinearInput normed,
                         const Tensor& encoded, SavedStore& saved) const;
  AttentionHeads heads_of(RankContext& context, const Batch& batch, LinearInput normed,
                          const Tensor& encoded, SavedStore& saved) const;
  /// [T', K (D + Dv)].
  Tensor key_value(RankContext& context, const Batch& batch, const Tensor& encoded,
                   SavedStore& saved) const;
  /// Generation: attended values [T, N · Dv]. What the encoder gives in this pass is kept first.
  Tensor attend_kept(RankContext& context, const Batch& batch, LinearInput normed,
                     const TensorSet& in, SavedStore& saved) const;
  /// The weight gradients of queries, keys and values.
  void query_weights(RankContext& context, const Batch& batch, SavedStore& saved);
  /// Views of the two column ranges of [T', K (D + Dv)] as [T', K, D] and [T', K, Dv].
  std::pair<Tensor, Tensor> split(const Tensor& key_value) const;

  CoreAttention core_;
  CrossAttentionParts parts_;
  bool last_;
};

}  // namespace viaduct
