#include "ops/reference/reference.h"

namespace viaduct::reference {

void rotary(const RotaryArgs& args) {
  const int64_t half = args.cos.dim(1);
  for (int64_t t = 0; t < args.x.dim(0); ++t) {
    const int64_t position = args.positions.data<int32_t>()[t];
    const double* cos = args.cos.data<double>() + position * half;
    const double* sin = args.sin.data<double>() + position * half;
    for (int64_t n = 0; n < args.x.dim(1); ++n) {
      double* x = args.x.data<double>() + t * args.x.stride(0) + n * args.x.stride(1);
      for (int64_t i = 0; i < half; ++i) {
        const int64_t first = args.interleaved ? 2 * i : i,
                      second = args.interleaved ? 2 * i + 1 : i + half;
        const double a = x[first], b = x[second], s = args.inverse ? -sin[i] : sin[i];
        x[first] = a * cos[i] - b * s;
        x[second] = b * cos[i] + a * s;
      }
    }
  }
}

}  // namespace viaduct::reference
