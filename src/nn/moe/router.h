#pragma once
// The first segment of a mixture of experts: norm → router → choice of experts, and, unless tokens
// are gathered, the order in which their rows go to them.

#include <optional>

#include "nn/branch_input.h"
#include "nn/moe/moe_edges.h"
#include "nn/moe/router_product.h"
#include "nn/norm.h"
#include "ops/expert_rows.h"

namespace viaduct {

/// Where a router's tokens come from.
struct RouterInput {
  std::optional<Norm> norm;  // absent: they come normed, as kBranchInput
  int64_t features = 0;      // H
  bool beside = false;       // the norm reads kBranchInput, and the stream bypasses the router
};

class RouterSegment final : public Segment {
 public:
  /// `product` gives E logits; `load_bias` [E] of the choice, or null.
  /// `block`: global number of the layer; `path`: of the router, the name of its random numbers.
  RouterSegment(MoeConfig moe, ExpertPlace place, RouterInput input, RouterProduct product,
                std::shared_ptr<const Parameter> load_bias, int64_t block, const std::string& path);

  Edge inputs(const RankContext&, const Batch&) const override;
  std::vector<std::string_view> outputs() const override;
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override;
  std::vector<const Parameter*> parameters() const override;
  std::string_view name() const override { return "router"; }

 private:
  /// The router's input from the normed tokens [T, H]: in training with noise, if it has any; and
  /// its gradient. Other segments get the tokens without noise.
  Tensor jittered(RankContext& context, const Batch& batch, const Tensor& tokens) const;
  bool jitters(const RankContext& context) const {
    return moe_.input_jitter > 0 && context.training;
  }
  /// The choices with −1 in place of those beyond the limits of experts and ranks, whose
  /// probabilities become 0.
  Tensor limited(RankContext& context, const Tensor& choice, const Tensor& probabilities,
                 MemoryTag tag) const;
  /// The order of the rows of the choices that have a place.
  SortByExpertArgs order_rows(RankContext& context, const Tensor& choice, MemoryTag tag,
                              const SavedStore& saved) const;
  /// Adds the micro-batch to the log of the step.
  void log(RankContext& context, const Batch& batch, const Tensor& logits, const Tensor& choice,
           const Tensor& kept, const std::vector<Tensor>& balanced) const;
  /// Expert and weight of each choice, by the logits and the bias; in the format of the logits, and
  /// then rounded to that of `probabilities`.
  void choose(RankContext& context, const Tensor& logits, const Tensor& probabilities,
              const Tensor& choice) const;
  /// The bias [E] of the choice that balances the tokens of the micro-batch (ops/sinkhorn.h), the
  /// same on all ranks that share its rows; nothing outside of training.
  Tensor balancing_bias(RankContext& context, const Tensor& logits) const;
  /// Choices of each expert over the tokens that are balanced together, on all ranks that share
  /// their rows.
  Tensor balanced_counts(RankContext& context, const Batch& batch, const Tensor& choice,
                         BalanceScope scope) const;
  /// The same over the tokens of all ranks in the step so far, this micro-batch included; a
  /// recomputed layer has those of its first forward.
  Tensor counts_of_step(RankContext& context, const Batch& batch, const Tensor& choice,
                        const SavedStore& saved) const;
  /// The load errors of the bias (= or +=) those of this rank's choices; or, of a bias that each
  /// update sets, its margins in the log of the step.
  void load_bias_backward(RankContext& context, const Batch& batch, const Tensor& logits,
                          const Tensor& choice) const;
  void add_margins(RankContext& context, const Batch& batch, const Tensor& logits) const;
  /// One for each balancing loss, at least one; the first also has the z-loss.
  std::vector<RouterLossTerms> loss_terms(RankContext& context, const Batch& batch,
                                          SavedStore& saved) const;
  /// logits [T, E] = their gradient, of d_probabilities [T, k] and all losses.
  void route_back(RankContext& context, const Tensor& d_probabilities, const Tensor& choice,
                  const Tensor& logits, const std::vector<RouterLossTerms>& terms) const;
  /// Tokens that are balanced together; 0: given by their counts.
  int64_t balanced_tokens(const RankContext& context, const Batch& batch, BalanceScope scope) const;

  MoeConfig moe_;
  ExpertPlace place_;
  RouterInput input_;
  RouterProduct product_;
  std::shared_ptr<const Parameter> load_bias_;  // or null
  int64_t block_;
  uint64_t jitter_path_, logits_path_;  // hashed names of random numbers
};

}  // namespace viaduct
