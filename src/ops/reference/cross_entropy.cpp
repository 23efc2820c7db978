#include "ops/cross_entropy.h"

#include <cmath>
#include <limits>

#include "ops/reference/reference.h"

namespace viaduct::reference {
namespace {

double capped(double z, double softcap) {
  return softcap > 0 ? softcap * std::tanh(z / softcap) : z;
}

}  // namespace

void cross_entropy_forward(const CrossEntropyForwardArgs& args) {
  for (int64_t t = 0; t < args.logits.dim(0); ++t) {
    const double* z = args.logits.data<double>() + t * args.logits.stride(0);
    const int64_t target = args.targets.data<int32_t>()[t] - args.first_column;
    double largest = std::numeric_limits<double>::lowest(), sum = 0;
    for (int64_t v = 0; v < args.columns; ++v)
      largest = std::max(largest, capped(z[v], args.softcap));
    for (int64_t v = 0; v < args.columns; ++v)
      sum += std::exp(capped(z[v], args.softcap) - largest);
    const bool here = target >= 0 && target < args.columns;
    args.lse.data<double>()[t] = largest + std::log(sum);
    args.target_logit.data<double>()[t] = here ? capped(z[target], args.softcap) : 0;
  }
}

void cross_entropy_backward(const CrossEntropyBackwardArgs& args) {
  const double factor = args.factor.data<double>()[0];
  for (int64_t t = 0; t < args.logits.dim(0); ++t) {
    const double* logits = args.logits.data<double>() + t * args.logits.stride(0);
    double* out = args.out.data<double>() + t * args.out.stride(0);
    const double weight = args.weight.data<float>()[t];
    const int64_t target = args.targets.data<int32_t>()[t] - args.first_column;
    for (int64_t v = 0; v < args.logits.dim(1); ++v) {
      if (v >= args.columns || weight == 0) {
        out[v] = 0;
        continue;
      }
      const double z = capped(logits[v], args.softcap);
      const double slope =
          args.softcap > 0 ? 1 - z / args.softcap * (z / args.softcap) : 1;  // of the soft cap
      const double onehot = target == v ? 1 : 0;
      out[v] = weight * factor * (std::exp(z - args.lse.data<double>()[t]) - onehot) * slope;
    }
  }
}

void lse_share(const LseShareArgs& args) {
  for (int64_t t = 0; t < args.lse.elements(); ++t) {
    const double lse = args.lse.data<double>()[t], largest = args.largest.data<double>()[t];
    args.share.data<double>()[t] = lse == largest ? 1 : std::exp(lse - largest);
  }
}

void lse_join(const LseJoinArgs& args) {
  for (int64_t t = 0; t < args.lse.elements(); ++t) {
    args.lse.data<double>()[t] =
        args.largest.data<double>()[t] + std::log(args.shares.data<double>()[t]);
  }
}

}  // namespace viaduct::reference
