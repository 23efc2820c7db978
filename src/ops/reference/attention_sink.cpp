#include <cmath>

#include "ops/reference/reference.h"

namespace viaduct::reference {

void attention_sink(const AttentionSinkArgs& args) {
  const int64_t queries = args.out.dim(0);
  for (int64_t n = 0; n < args.out.dim(1); ++n) {
    const double sink = args.sink.data<double>()[n];
    for (int64_t t = 0; t < queries; ++t) {
      double& lse = args.lse.data<double>()[n * queries + t];
      const double largest = std::max(lse, sink);
      const double joined = largest + std::log(std::exp(lse - largest) + std::exp(sink - largest));
      double* out = args.out.data<double>() + t * args.out.stride(0) + n * args.out.stride(1);
      for (int64_t i = 0; i < args.out.dim(2); ++i) out[i] *= std::exp(lse - joined);
      lse = joined;
    }
  }
}

void attention_sink_backward(const AttentionSinkBackwardArgs& args) {
  const int64_t queries = args.lse.dim(1);
  for (int64_t n = 0; n < args.lse.dim(0); ++n) {
    double sum = 0;
    for (int64_t t = 0; t < queries; ++t) {
      const int64_t at = n * queries + t;
      sum += std::exp(args.sink.data<double>()[n] - args.lse.data<double>()[at]) *
             args.delta.data<double>()[at];
    }
    args.d_sink.data<double>()[n] -= sum;
  }
}

}  // namespace viaduct::reference
