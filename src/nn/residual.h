#pragma once
// The end of a block's branch: out = residual + dropout(factor · branch), and its gradient.

#include <cstdint>
#include <string_view>

#include "nn/batch.h"
#include "nn/context.h"

namespace viaduct {

/// Dropout with the random stream of a module path; probability 0, or not training: no random
/// numbers.
class ResidualDropout {
 public:
  /// `factor`: of the branch (Granite's residual multiplier).
  ResidualDropout(double probability, std::string_view path, double factor = 1);

  /// residual + dropout(factor · branch) in the stream format; inputs may have any format;
  /// `residual` may be undefined (only dropout).
  Tensor forward(RankContext& context, const Batch& batch, const Tensor& branch,
                 const Tensor& residual, MemoryTag tag = MemoryTag::saved) const;
  /// Gradient of the branch, in the branch's `format`, from the gradient of the sum.
  Tensor backward(RankContext& context, const Batch& batch, const Tensor& d_out,
                  DType format) const;
  /// Whether it uses random numbers.
  bool active(const RankContext& context) const { return context.training && probability_ > 0; }
  /// Whether the branch is added as it is.
  bool only_adds(const RankContext& context) const { return !active(context) && factor_ == 1; }

 private:
  /// factor · x in x's format, in a new tensor; x itself for a factor of 1.
  Tensor scaled(RankContext& context, const Tensor& x) const;

  double probability_, factor_;
  uint64_t path_hash_;
};

}  // namespace viaduct
