#pragma once
// The end of a block's branch: out = residual + dropout(branch), and its gradient.

#include <cstdint>
#include <string_view>

#include "nn/batch.h"
#include "nn/context.h"

namespace viaduct {

/// Dropout with the random stream of a module path; probability 0, or not training: no random
/// numbers.
class ResidualDropout {
 public:
  ResidualDropout(double probability, std::string_view path);

  /// residual + dropout(branch) in the stream format; inputs may have any format; `residual` may be
  /// undefined (only dropout).
  Tensor forward(RankContext& context, const Batch& batch, const Tensor& branch,
                 const Tensor& residual, MemoryTag tag = MemoryTag::saved) const;
  /// Gradient of the branch, in the branch's `format`, from the gradient of the sum.
  Tensor backward(RankContext& context, const Batch& batch, const Tensor& d_out,
                  DType format) const;
  /// Whether it uses random numbers.
  bool active(const RankContext& context) const { return context.training && probability_ > 0; }

 private:
  double probability_;
  uint64_t path_hash_;
};

}  // namespace viaduct
