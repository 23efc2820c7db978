#pragma once
// A norm over the features of all heads, of which each tensor rank has some (OLMoE's norms of
// queries and keys): the ranks gather the features, and each norms whole rows.

#include "nn/norm.h"

namespace viaduct {

class WideNorm {
 public:
  /// `norm` is over the features of all tensor ranks; its weight's gradient is the same on each.
  explicit WideNorm(Norm norm) : norm_(std::move(norm)) {}

  /// y [T, W] = this rank's features of norm(x of all ranks), x [T, W]; keeps whole rows.
  Tensor forward(RankContext& context, const Tensor& x, SavedStore& saved) const;
  /// dx [T, W] (=) from dy [T, W], which may be dx; the gradient of the weight accumulates.
  void backward(RankContext& context, const Tensor& dy, const Tensor& dx, SavedStore& saved) const;

  void append_parameters(std::vector<const Parameter*>& list) const {
    norm_.append_parameters(list);
  }

 private:
  Norm norm_;
};

}  // namespace viaduct
