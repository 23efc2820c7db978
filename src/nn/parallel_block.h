#pragma once
// A transformer block whose attention and feed-forward both begin at the block's input (Wang,
// Komatsuzaki 2021, GPT-J): out = x + attention(norm x) + feed-forward(norm' x). The norms are two
// (GPT-NeoX), or one for both (GPT-J, Phi, Cohere). One segment: a result that both branches read
// is dropped and recomputed once.

#include <utility>

#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/segment.h"

namespace viaduct {

class ParallelBlockSegment final : public StreamSegment {
 public:
  /// Without `mlp.input_norm` the feed-forward reads what attention reads: the result of its norm
  /// or, without norms, the stream. `path`: of the attention.
  ParallelBlockSegment(AttentionSpec spec, AttentionParts attention, std::string_view path,
                       MlpParts mlp)
      : attention_(std::move(spec), std::move(attention), path), mlp_(std::move(mlp)) {}

  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  /// The feed-forward's weight gradients are made before the backward of attention, which then has
  /// the memory of what they read.
  TensorSet backward(RankContext&, const Batch&, const TensorSet& d_out, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override;
  std::vector<const Parameter*> parameters() const override;
  std::string_view name() const override { return "parallel_block"; }

 private:
  int64_t features() const override { return attention_.features(); }
  /// Both halves, or only the first.
  TensorSet backward_through(RankContext& context, const Batch& batch, const TensorSet& d_out,
                             SavedStore& saved, bool both);

  AttentionSegment attention_;
  MlpSegment mlp_;
};

}  // namespace viaduct
