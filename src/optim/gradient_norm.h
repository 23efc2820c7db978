#pragma once
// The norm of the whole model's gradient, and what follows from it before an update.

#include <memory>

#include "comm/parallel_groups.h"
#include "ops/step_scalars.h"
#include "sharding/parameter_store.h"

namespace viaduct {

class GradientNorm {
 public:
  /// `statistics`: the ranks whose runs together are the whole model, once (GroupKind::statistics).
  /// `skip_not_finite`: a norm that is not finite sets the skip flag.
  GradientNorm(OpContext& context, const ParameterStore& store, bool skip_not_finite,
               std::shared_ptr<Communicator> statistics);

  /// Σ g² over every main gradient of the model, each logical element once, then norm, clip factor
  /// and skip flag into `scalars` (StepScalars block), bitwise the same on all ranks and for every
  /// split. Reads gradient_factor and clip_norm from it.
  void compute(OpContext& context, const Tensor& scalars);

 private:
  const ParameterStore& store_;
  bool skip_not_finite_;
  std::shared_ptr<Communicator> statistics_;
  Tensor state_;
};

}  // namespace viaduct
