#pragma once
// The norm of the whole model's gradient, and what follows from it before an update.

#include "ops/step_scalars.h"
#include "sharding/parameter_store.h"

namespace viaduct {

class GradientNorm {
 public:
  /// `skip_not_finite`: a norm that is not finite sets the skip flag. The store outlives this.
  GradientNorm(OpContext& context, const ParameterStore& store, bool skip_not_finite);

  /// Σ g² over every main gradient of the model, each logical element once, then norm, clip factor
  /// and skip flag into `scalars` (StepScalars block), bitwise the same on all ranks and for every
  /// split. Reads gradient_factor and clip_norm from it.
  void compute(OpContext& context, const Tensor& scalars);

 private:
  const ParameterStore& store_;
  bool skip_not_finite_;
  Tensor state_;
};

}  // namespace viaduct
