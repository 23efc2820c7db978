#include "ops/reference/reference.h"
#include "ops/xielu_point.h"

namespace viaduct::reference {

void xielu_forward(const XieluForwardArgs& args) {
  const XieluSlopes<double> slopes(*args.alpha_p.data<double>(), *args.alpha_n.data<double>());
  for (int64_t t = 0; t < args.in.dim(0); ++t) {
    const double* in = args.in.data<double>() + t * args.in.stride(0);
    double* out = args.out.data<double>() + t * args.out.stride(0);
    for (int64_t i = 0; i < args.in.dim(1); ++i) out[i] = slopes.value(in[i]);
  }
}

void xielu_backward(const XieluBackwardArgs& args) {
  const XieluSlopes<double> slopes(*args.alpha_p.data<double>(), *args.alpha_n.data<double>());
  double sum_p = 0, sum_n = 0;
  for (int64_t t = 0; t < args.in.dim(0); ++t) {
    const double* in = args.in.data<double>() + t * args.in.stride(0);
    const double* d_out = args.d_out.data<double>() + t * args.d_out.stride(0);
    double* d_in = args.d_in.data<double>() + t * args.d_in.stride(0);
    for (int64_t i = 0; i < args.in.dim(1); ++i) {
      const double x = in[i], d = d_out[i];
      (x > 0 ? sum_p : sum_n) += d * slopes.basis(x);
      d_in[i] = d * slopes.derivative(x);
    }
  }
  if (!args.d_alpha_p) return;
  *args.d_alpha_p.data<double>() += sum_p * slopes.of_raw_p;
  *args.d_alpha_n.data<double>() += sum_n * slopes.of_raw_n;
}

}  // namespace viaduct::reference
