#pragma once
// A linear layer y = x · Wᵀ + b with W [out, in]: the GEMMs of a segment. Keeps nothing itself; its
// segment does.

#include <memory>

#include "nn/context.h"

namespace viaduct {

class Linear {
 public:
  /// `bias` may be null.
  Linear(std::shared_ptr<const Parameter> weight, std::shared_ptr<const Parameter> bias);

  /// y [T, out] of x [T, in].
  Tensor forward(RankContext& context, const Tensor& x, MemoryTag tag = MemoryTag::saved) const;
  /// dx [T, in] of dy [T, out]; the gradient of the bias accumulates.
  Tensor backward_input(RankContext& context, const Tensor& dy) const;
  /// Gradient of the weight from the forward's x and the backward's dy.
  void backward_weight(RankContext& context, const Tensor& x, const Tensor& dy) const;

  void append_parameters(std::vector<const Parameter*>& list) const;

 private:
  std::shared_ptr<const Parameter> weight_, bias_;
};

}  // namespace viaduct
