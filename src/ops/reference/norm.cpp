#include <cmath>

#include "ops/reference/reference.h"
#include "ops/reference/rows.h"

namespace viaduct::reference {

void norm_forward(const NormForwardArgs& args) {
  const int64_t H = args.x.dim(-1);
  const double* weight = args.weight.data<double>();
  for (int64_t r = 0; r < row_count(args.x); ++r) {
    const double* x = row(args.x, r);
    double* y = row(args.y, r);
    double mean = 0;
    if (args.kind == NormKind::layer_norm) {
      for (int64_t i = 0; i < H; ++i) mean += x[i];
      mean /= static_cast<double>(H);
    }
    double square = 0;
    for (int64_t i = 0; i < H; ++i) square += (x[i] - mean) * (x[i] - mean);
    const double rstd = 1 / std::sqrt(square / static_cast<double>(H) + args.eps);
    for (int64_t i = 0; i < H; ++i) {
      y[i] = (x[i] - mean) * rstd * (weight[i] + args.weight_offset) +
             (args.bias ? args.bias.data<double>()[i] : 0.0);
    }
    if (args.mean) args.mean.data<double>()[r] = mean;
    if (args.rstd) args.rstd.data<double>()[r] = rstd;
  }
}

void norm_backward(const NormBackwardArgs& args) {
  const int64_t H = args.x.dim(-1);
  const double* weight = args.weight.data<double>();
  const bool layer = args.kind == NormKind::layer_norm;
  for (int64_t r = 0; r < row_count(args.x); ++r) {
    const double* x = row(args.x, r);
    const double* dy = row(args.dy, r);
    const double mean = layer ? args.mean.data<double>()[r] : 0.0;
    const double rstd = args.rstd.data<double>()[r];
    double sum = 0, projection = 0;  // means of g = dy · w, and of g · x̂
    for (int64_t i = 0; i < H; ++i) {
      const double g = dy[i] * (weight[i] + args.weight_offset);
      sum += g;
      projection += g * (x[i] - mean) * rstd;
    }
    sum = layer ? sum / static_cast<double>(H) : 0.0;
    projection /= static_cast<double>(H);
    double* dx = row(args.dx, r);
    for (int64_t i = 0; i < H; ++i) {
      const double x_hat = (x[i] - mean) * rstd;
      const double dy_i = dy[i];
      args.d_weight.data<double>()[i] += dy_i * x_hat;
      if (args.d_bias) args.d_bias.data<double>()[i] += dy_i;
      const double g = dy_i * (weight[i] + args.weight_offset);
      dx[i] = (args.dx_add ? row(args.dx_add, r)[i] : 0.0) + rstd * (g - sum - x_hat * projection);
    }
  }
}

}  // namespace viaduct::reference
