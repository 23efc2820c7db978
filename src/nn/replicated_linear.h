#pragma once
// A linear layer y = x · Wᵀ whose weight every tensor rank holds whole, over the rows of the stream
// that the rank has: the ranks exchange nothing. Its products are not quantized.

#include <memory>

#include "nn/context.h"
#include "nn/low_rank.h"
#include "nn/saved.h"

namespace viaduct {

class ReplicatedLinear {
 public:
  /// `weight` [out, in]; `terms` are added to it.
  explicit ReplicatedLinear(std::shared_ptr<const Parameter> weight, LowRankTerms terms = {})
      : weight_(std::move(weight)), terms_(std::move(terms)) {}

  /// y [R, out] of x [R, in], in the activation format; keeps x.
  Tensor forward(RankContext& context, const Tensor& x, SavedStore& saved) const;
  /// dx [R, in] = dy [R, out] · W; keeps dy.
  Tensor backward_input(RankContext& context, const Tensor& dy, SavedStore& saved) const;
  /// dW [out, in] (= or +=) dyᵀ · x.
  void backward_weight(RankContext& context, SavedStore& saved) const;

  void append_parameters(std::vector<const Parameter*>& list) const;
  int64_t outputs() const { return weight_->shape[0]; }

 private:
  /// Whether the backward has a second half: the weight is trained, or has terms.
  bool has_weight_half() const { return weight_->trained || terms_.any(); }

  std::shared_ptr<const Parameter> weight_;
  LowRankTerms terms_;
};

}  // namespace viaduct
