#pragma once
// The self-attention segment of a transformer block: (norm) → QKV → (QK norm) → rotary → (QK norm)
// → attention → projection → (norm) → dropout → +.

#include <optional>

#include "nn/core_attention.h"
#include "nn/head_norm.h"
#include "nn/linear.h"
#include "nn/linear_bias.h"
#include "nn/norm.h"
#include "nn/residual.h"
#include "nn/rotary_embedding.h"
#include "nn/segment.h"
#include "nn/wide_norm.h"

namespace viaduct {

/// The layers that an attention segment is composed of. The QKV weight has rows [heads · D |
/// kv_heads · D | kv_heads · D], without the last ones where values come from the keys.
struct AttentionParts {
  std::optional<Norm> input_norm;  // absent: the layers read the stream (OLMo 2)
  Linear qkv;
  std::optional<Norm> q_norm, k_norm;                // per head
  std::optional<WideNorm> q_wide_norm, k_wide_norm;  // over all heads
  RotaryEmbedding rotary;
  Linear projection;
  std::optional<Norm> output_norm;  // on the branch, before the residual (Gemma 2)
  ResidualDropout residual;
  std::shared_ptr<const Parameter> sinks;                         // [heads]; null: none
  bool norms_after_rotary = false;                                // of q and k; false: before
  std::optional<HeadNorm> q_head_norm = {}, k_head_norm = {};     // per head, before rotary
  std::shared_ptr<const LinearBiasTables> linear_bias = nullptr;  // ALiBi; null: none
  RelativeBias relative = {};       // of the scores, shared by the layers of a stack (T5)
  std::optional<Norm> v_norm = {};  // per head
  /// Values are the keys as QKV makes them; needs norms of both, before rotary.
  bool values_from_keys = false;
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
  int64_t features() const override { return parts_.projection.weight()->shape[0]; }

  // The same in pieces, for a block whose branches begin at the same stream (nn/parallel_block.h).

  /// The input [stream tokens, H] of QKV from the stream, of the same shape.
  LinearInput begin(RankContext& context, const Tensor& stream, SavedStore& saved) const;
  /// stream + the branch that begins with `normed`; undefined where it is not read.
  Tensor add_branch(RankContext& context, const Batch& batch, LinearInput normed,
                    const Tensor& stream, SavedStore& saved, MemoryTag tag) const;
  /// The gradient of `normed` from that of the sum. `both`: with all weight gradients but that of
  /// QKV.
  Tensor branch_gradient(RankContext& context, const Batch& batch, const Tensor& d_stream,
                         SavedStore& saved, bool both) const;
  /// The gradient of the stream: from that of `normed`, and `d_stream` of the stream's other uses.
  Tensor begin_gradient(RankContext& context, const Tensor& d_normed, const Tensor& d_stream,
                        SavedStore& saved) const;
  void backward_qkv_weight(RankContext& context, SavedStore& saved) const;

 private:
  /// The unit qkv_linear: from the normed stream [T, H] to q [T, N, D], k and v [T, K, D].
  AttentionHeads project(RankContext& context, const Batch& batch, LinearInput normed,
                         SavedStore& saved) const;
  AttentionHeads heads_of(RankContext& context, const Batch& batch, LinearInput normed,
                          SavedStore& saved) const;
  void norm_heads(RankContext& context, AttentionHeads& heads, SavedStore& saved) const;
  void rotate(RankContext& context, const Batch& batch, AttentionHeads& heads, MemoryTag tag,
              bool inverse = false) const;
  /// Views of the column ranges of [T, (N + 2K) D] as [T, heads, D]; of [T, (N + K) D] the last one
  /// is both k and v.
  AttentionHeads split(const Tensor& qkv) const;
  int64_t qkv_features() const;
  /// From d_v [T, K, D] to its place in the gradient of QKV, whose keys are complete.
  void values_backward(RankContext& context, const Tensor& d_v, const AttentionHeads& out,
                       SavedStore& saved) const;
  /// Heads [T, heads, D] of a column range as rows [T, heads · D], and back.
  Tensor as_rows(const Tensor& heads) const;
  Tensor as_heads(const Tensor& rows) const;

  CoreAttention core_;
  AttentionParts parts_;
};

}  // namespace viaduct
