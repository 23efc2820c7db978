#pragma once
// The last segment: final norm, language-model head and cross entropy. Three modes:
//
//   mode         setting                   forward keeps            backward
//   recompute    recompute_logits          log-sum-exps             recomputes logits, in chunks
//   keep logits  recompute_logits off      logits, log-sum-exps     overwrites them by gradients
//   compose      cross-entropy fusion off  probabilities            single operations, all tokens
//
// Only the first two go chunk by chunk. In recompute no [tokens, vocabulary] tensor exists, unless
// the weight gradient comes later: then the gradients of all logits are kept for it, in the
// activations' format. Each tensor rank has the logits of its rows of the vocabulary, for all
// tokens; log-sum-exps and target logits are merged once for all chunks.

#include <optional>

#include "nn/composed_cross_entropy.h"
#include "nn/norm.h"
#include "nn/segment.h"

namespace viaduct {

struct HeadSpec {
  int64_t vocabulary = 0;  // true size, of all tensor ranks; rows beyond it are padding
  double softcap = 0;      // on the logits; 0: none
  double scale = 1;        // of the logits with their bias, before the softcap
};

class HeadSegment final : public Segment {
 public:
  /// `weight` [V here, H] is the token embedding if the two are tied; `bias` [V here] may be null.
  HeadSegment(HeadSpec spec, Norm norm, std::shared_ptr<const Parameter> weight,
              std::shared_ptr<const Parameter> bias = nullptr);

  Edge inputs(const RankContext& context, const Batch& batch) const override {
    return {stream_edge(context, batch, norm_.features())};
  }
  std::vector<std::string_view> outputs() const override { return {}; }
  /// Adds the weighted token losses to context.loss_state, the same on all tensor ranks; returns an
  /// empty set.
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  /// `d_out` is empty: the gradient of the loss starts here, times the loss scale.
  TensorSet backward(RankContext&, const Batch&, const TensorSet& d_out, SavedStore&) override;
  /// The same in halves, with the same sums in the same order: gradients of all logits are kept
  /// between them.
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override;
  std::vector<const Parameter*> parameters() const override;
  std::string_view name() const override { return "head"; }

  /// Only the final norm (no saved store): the stream's rows of this rank → normed rows [T, H] of
  /// all tokens, the input of `logits`.
  Tensor final_norm(RankContext& context, const Tensor& hidden) const;
  /// logits [t, V] of the true vocabulary from normed rows [t, H], on every tensor rank, in the
  /// statistic format, before the softcap.
  Tensor logits(RankContext& context, const Tensor& normed) const;
  const HeadSpec& spec() const { return spec_; }
  /// Tokens of a chunk: depends only on the vocabulary and the backend, so that sums do not depend
  /// on batch size or threads.
  int64_t chunk_tokens(const OpContext& context) const;

 private:
  friend class HeldHead;
  /// What the forward keeps for the backward.
  enum class Way { recompute, keep_logits, compose };
  Way way(const RankContext& context) const;
  /// The part of the vocabulary that a tensor rank holds.
  VocabularyColumns columns(int64_t tensor_rank) const;
  /// logits [t, V here] in the statistic format.
  Tensor logits_here(RankContext& context, const Tensor& normed, MemoryTag tag) const;
  void make_logits(RankContext& context, const Tensor& normed, const Tensor& logits) const;
  /// Log-sum-exps and target logits [T] of all ranks' columns.
  void fused_forward(RankContext& context, const Batch& batch, const Tensor& normed,
                     const Tensor& lse, const Tensor& target_logit, SavedStore& saved) const;
  /// Writes the gradient of the product's logits [t, V here] (unscaled) of the tokens from `begin`
  /// on to `out`.
  void logits_gradient(RankContext& context, const Batch& batch, int64_t begin,
                       const Tensor& logits, const Tensor& lse, const Tensor& out) const;
  bool trains_bias() const { return bias_ != nullptr && bias_->trained; }
  /// Where the gradient [V here] of the bias is added up; undefined where it is not trained. Once a
  /// backward.
  Tensor bias_gradient(RankContext& context) const;
  /// d_bias += the sum of d_logits [t, V here] over the tokens, if it is defined.
  void add_bias_gradient(RankContext& context, const Tensor& d_logits, const Tensor& d_bias) const;
  /// d_bias is complete.
  void finish_bias_gradient(RankContext& context) const;
  /// The gradients [T, V here] of all logits; writes the gradient of the normed rows to `d_normed`.
  Tensor fused_backward(RankContext& context, const Batch& batch, const Tensor& normed,
                        const Tensor& d_normed, SavedStore& saved) const;
  /// d_normed [t, H] = gradient of the normed rows from d_logits [t, V here].
  void normed_gradient(RankContext& context, const Tensor& d_logits, const Tensor& d_normed) const;
  /// From the gradient of the normed rows of all tokens to the gradient of the stream.
  TensorSet stream_gradient(RankContext& context, const Tensor& d_normed, SavedStore& saved) const;
  /// Merges log-sum-exps and target logits [T] of this rank's columns into those of the vocabulary.
  void merge(RankContext& context, const Tensor& lse, const Tensor& target_logit) const;

  HeadSpec spec_;
  Norm norm_;
  std::shared_ptr<const Parameter> weight_, bias_;
};

/// Holds the matrix and the bias of a head: who makes logits several times does it meanwhile, so
/// that sharded ones are gathered once.
class HeldHead {
 public:
  HeldHead(WeightAccess& access, const HeadSegment& head)
      : weight_(access, *head.weight_, WeightUse::forward) {
    if (head.bias_) bias_.emplace(access, *head.bias_, WeightUse::elementwise);
  }

 private:
  AcquiredWeight weight_;
  std::optional<AcquiredWeight> bias_;
};

}  // namespace viaduct
