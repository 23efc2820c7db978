#include "ops/reference/reference.h"
#include "ops/reference/write_weight.h"

namespace viaduct::reference {

void momentum(const MomentumArgs& args) {
  const auto scalar = [&](StepScalar slot) {
    return args.scalars.data<double>()[static_cast<int>(slot)];
  };
  if (scalar(StepScalar::skip) != 0) return;
  const double lr = scalar(args.learning_rate);
  const double decay = args.weight_decay * scalar(StepScalar::weight_decay_factor);
  for (int64_t i = 0; i < args.master.elements(); ++i) {
    double& p = args.master.data<double>()[i];
    double& m = args.state.data<double>()[i];
    const double g = scalar(StepScalar::clip_factor) * args.gradient.data<double>()[i];
    if (args.rule == MomentumRule::sgd) {
      m = args.momentum * m + (g + decay * p);
      p -= lr * m;
    } else {
      const double u = args.beta1 * m + (1 - args.beta1) * g;
      p = p * (1 - lr * decay) - lr * ((u > 0) - (u < 0));
      m = args.beta2 * m + (1 - args.beta2) * g;
    }
    write_weight(args.weight, i, p);
  }
}

}  // namespace viaduct::reference
