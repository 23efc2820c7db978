#pragma once
// A transformer block whose attention and feed-forward both begin at the block's input (Wang,
// Komatsuzaki 2021, GPT-J): out = x + attention(norm x) + feed-forward(norm' x). The norms are two
// (GPT-NeoX), or one for both (GPT-J, Phi, Cohere). One segment: a result that both branches read
// is dropped and recomputed once. With experts, which are segments of their own, attention is one
// too, and passes on what they read.

#include <utility>

#include "nn/attention.h"
#include "nn/branch_input.h"
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

/// The attention of such a block with experts: from the stream x to x + attention(norm x) and
/// kBranchInput, whose gradient it adds to that of x or of the norm's result.
class ParallelAttentionSegment final : public Segment {
 public:
  /// `shared_norm`: the experts read the result of the attention's norm, else x.
  ParallelAttentionSegment(AttentionSpec spec, AttentionParts attention, std::string_view path,
                           bool shared_norm)
      : attention_(std::move(spec), std::move(attention), path), shared_norm_(shared_norm) {}

  Edge inputs(const RankContext& context, const Batch& batch) const override {
    return {stream_edge(context, batch, attention_.features())};
  }
  std::vector<std::string_view> outputs() const override { return {kHidden, kBranchInput}; }
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  TensorSet backward(RankContext&, const Batch&, const TensorSet& d_out, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override;
  std::vector<const Parameter*> parameters() const override { return attention_.parameters(); }
  std::string_view name() const override { return "attention"; }

 private:
  /// Both halves, or only the first.
  TensorSet backward_through(RankContext& context, const Batch& batch, const TensorSet& d_out,
                             SavedStore& saved, bool both);

  AttentionSegment attention_;
  bool shared_norm_;
};

}  // namespace viaduct
