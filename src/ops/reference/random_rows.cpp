#include "ops/random_rows.h"

#include "ops/reference/reference.h"

namespace viaduct::reference {
namespace {

double uniform(uint64_t key, const Tensor& token_index, int64_t t, int64_t h) {
  const auto token = static_cast<uint64_t>(token_index.data<int64_t>()[t]);
  return static_cast<double>(uniform_open(
      philox4x32(key, token, static_cast<uint64_t>(h / 4))[static_cast<size_t>(h % 4)]));
}

}  // namespace

void jitter(const JitterArgs& args) {
  const uint64_t key = philox_key(args.key);
  for (int64_t t = 0; t < args.out.dim(0); ++t) {
    const double* x = args.x.data<double>() + t * args.x.stride(0);
    double* out = args.out.data<double>() + t * args.out.stride(0);
    for (int64_t h = 0; h < args.out.dim(1); ++h)
      out[h] = x[h] * (1 + args.epsilon * (2 * uniform(key, args.token_index, t, h) - 1));
  }
}

void random_rows(const RandomRowsArgs& args) {
  const uint64_t key = philox_key(args.key);
  for (int64_t t = 0; t < args.out.dim(0); ++t) {
    for (int64_t h = 0; h < args.out.dim(1); ++h)
      args.out.data<double>()[t * args.out.stride(0) + h] = uniform(key, args.token_index, t, h);
  }
}

}  // namespace viaduct::reference
