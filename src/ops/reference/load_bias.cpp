#include "ops/load_bias.h"

#include <cmath>
#include <numeric>

#include "ops/reference/reference.h"
#include "ops/step_scalars.h"

namespace viaduct::reference {

void load_error(const LoadErrorArgs& args) {
  const int64_t experts = args.counts.dim(0);
  const auto* n = args.counts.data<int64_t>();
  const int64_t all = std::accumulate(n, n + experts, int64_t{0});
  double* out = args.out.data<double>();
  for (int64_t e = 0; e < experts; ++e) {
    out[e] =
        (args.mode == WriteMode::assign ? 0 : out[e]) + static_cast<double>(experts * n[e] - all);
  }
}

void move_load_bias(const MoveLoadBiasArgs& args) {
  if (*step_scalar(args.scalars, StepScalar::skip).data<double>() != 0) return;
  for (int64_t e = 0; e < args.bias.elements(); ++e) {
    const double error = args.error.data<double>()[e];
    double& bias = args.bias.data<double>()[e];
    if (args.set) {
      bias = std::isnan(error) ? bias : error;
    } else {
      bias -= error > 0 ? args.rate : error < 0 ? -args.rate : 0;
    }
    if (args.weight) args.weight.data<double>()[e] = bias;
  }
}

}  // namespace viaduct::reference
