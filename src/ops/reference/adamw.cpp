#include <cmath>

#include "ops/reference/reference.h"
#include "ops/reference/write_weight.h"

namespace viaduct::reference {

void adamw(const AdamWArgs& args) {
  const auto scalar = [&](StepScalar slot) {
    return args.scalars.data<double>()[static_cast<int>(slot)];
  };
  if (scalar(StepScalar::skip) != 0) return;
  const double lr = scalar(args.learning_rate);
  const double decay = lr * args.weight_decay * scalar(StepScalar::weight_decay_factor);
  for (int64_t i = 0; i < args.master.elements(); ++i) {
    double& p = args.master.data<double>()[i];
    double& m = args.first.data<double>()[i];
    double& v = args.second.data<double>()[i];
    const double g = scalar(StepScalar::clip_factor) * args.gradient.data<double>()[i];
    p *= 1 - decay;
    m = args.beta1 * m + (1 - args.beta1) * g;
    v = args.beta2 * v + (1 - args.beta2) * g * g;
    p -= lr * args.learning_rate_multiplier * (m / scalar(StepScalar::bias_correction1)) /
         (std::sqrt(v / scalar(StepScalar::bias_correction2)) + args.epsilon);
    write_weight(args.weight, i, p);
  }
}

}  // namespace viaduct::reference
