#pragma once
// A norm on each head of queries or keys with weights of the head's own, and no bias (StableLM 2,
// Command R+): the norm without weights, then the product with them.

#include <memory>
#include <utility>
#include <vector>

#include "nn/context.h"
#include "nn/saved.h"
#include "ops/norm.h"

namespace viaduct {

class HeadNorm {
 public:
  /// `weight`: of the N heads of this tensor rank, [N, D] or all of them as one vector; heads are
  /// multiplied by weight + `weight_offset`.
  HeadNorm(NormKind kind, double eps, double weight_offset, std::shared_ptr<const Parameter> weight)
      : kind_(kind), eps_(eps), weight_offset_(weight_offset), weight_(std::move(weight)) {}

  /// y [T, N, D] = (weight + offset) [N, D] · norm(x), in the activation format, of x [T, N, D]
  /// whose heads lie together in a token's row. Keeps x.
  Tensor forward(RankContext& context, const Tensor& x, SavedStore& saved) const;
  /// dx from dy, both as x; dx may be dy. The gradient of the weight accumulates (+=).
  void backward(RankContext& context, const Tensor& dy, const Tensor& dx, SavedStore& saved) const;

  void append_parameters(std::vector<const Parameter*>& list) const {
    list.push_back(weight_.get());
  }

 private:
  /// norm(x) without weights, in a new tensor with this tag; its row statistics where they are
  /// defined.
  Tensor normed(RankContext& context, const Tensor& x, MemoryTag tag, const Tensor& mean,
                const Tensor& rstd) const;
  void add_weight_gradient(RankContext& context, const Tensor& x, const Tensor& dy) const;
  /// out [T, N, D] = (weight + offset) · x.
  void multiply_heads(RankContext& context, const Tensor& x, const Tensor& out) const;

  NormKind kind_;
  double eps_, weight_offset_;
  std::shared_ptr<const Parameter> weight_;
};

}  // namespace viaduct
