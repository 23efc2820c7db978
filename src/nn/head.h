#pragma once
// The last segment: final norm, language-model head and cross entropy, chunk of tokens by chunk, so
// that no [tokens, vocabulary] tensor exists. The forward keeps the log-sum-exp of each token; the
// backward makes the logits of a chunk again.

#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/segment.h"

namespace viaduct {

struct HeadSpec {
  int64_t vocabulary = 0;  // true size; rows of the weight beyond it are padding
  double softcap = 0;      // on the logits; 0: none
};

class HeadSegment final : public Segment {
 public:
  /// `weight` [V, H] is the token embedding where tied.
  HeadSegment(HeadSpec spec, Norm norm, std::shared_ptr<const Parameter> weight);

  /// Adds the weighted token losses to context.loss_state; returns an empty set.
  TensorSet forward(RankContext& context, const Batch& batch, const TensorSet& in,
                    SavedStore& saved) override;
  /// `d_out` is empty: the gradient of the loss starts here, times the loss scale. The weight's
  /// gradient is made here too, since the gradient of a chunk's logits exists only inside the loop
  /// over chunks.
  TensorSet backward_input(RankContext& context, const Batch& batch, const TensorSet& d_out,
                           SavedStore& saved) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override {}
  std::vector<const Parameter*> parameters() const override;
  std::string_view name() const override { return "head"; }

  /// The final norm alone (no saved store): what `logits` takes.
  Tensor final_norm(RankContext& context, const Tensor& hidden) const;
  /// logits [t, V] in the statistic format of normed rows [t, H], before the softcap.
  Tensor logits(RankContext& context, const Tensor& normed,
                MemoryTag tag = MemoryTag::activations) const;
  const HeadSpec& spec() const { return spec_; }

  /// Tokens of a chunk: fixed by the vocabulary alone, so that sums do not depend on batch size or
  /// threads.
  int64_t chunk_tokens() const;

 private:
  HeadSpec spec_;
  Norm norm_;
  std::shared_ptr<const Parameter> weight_;
};

}  // namespace viaduct
