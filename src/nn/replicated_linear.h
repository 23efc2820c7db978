#pragma once
// A linear layer y = x · Wᵀ whose weight every tensor rank holds whole, over the rows of the stream
// that the rank has: the ranks exchange nothing. Its products are not quantized.

#include <memory>

#include "nn/context.h"
#include "nn/saved.h"

namespace viaduct {

class ReplicatedLinear {
 public:
  /// `weight` [out, in].
  explicit ReplicatedLinear(std::shared_ptr<const Parameter> weight) : weight_(std::move(weight)) {}

  /// y [R, out] of x [R, in], in the activation format; keeps x.
  Tensor forward(RankContext& context, const Tensor& x, SavedStore& saved) const;
  /// dx [R, in] = dy [R, out] · W; keeps dy.
  Tensor backward_input(RankContext& context, const Tensor& dy, SavedStore& saved) const;
  /// dW [out, in] (= or +=) dyᵀ · x.
  void backward_weight(RankContext& context, SavedStore& saved) const;

  const Parameter* parameter() const { return weight_.get(); }
  int64_t outputs() const { return weight_->shape[0]; }

 private:
  std::shared_ptr<const Parameter> weight_;
};

}  // namespace viaduct
