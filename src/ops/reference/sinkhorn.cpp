#include "ops/sinkhorn.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/reference/reference.h"

namespace viaduct::reference {

void sinkhorn_bias(const SinkhornArgs& args) {
  const int64_t tokens = args.logits.dim(0), experts = args.logits.dim(1);
  const auto* x = args.logits.data<double>();
  auto* bias = args.bias.data<double>();
  std::fill_n(bias, experts, 0.0);
  if (tokens == 0) return;
  std::vector<double> p(static_cast<size_t>(tokens * experts)), token(static_cast<size_t>(tokens)),
      expert(static_cast<size_t>(experts), 1.0);
  const auto at = [&](int64_t t, int64_t e) -> double& {
    return p[static_cast<size_t>(t * experts + e)];
  };
  for (int64_t t = 0; t < tokens; ++t) {
    const double largest = *std::max_element(x + t * experts, x + (t + 1) * experts);
    for (int64_t e = 0; e < experts; ++e) at(t, e) = std::exp(x[t * experts + e] - largest);
  }
  double change = 1;
  for (int round = 0; round < kSinkhornRounds && change > kSinkhornTolerance; ++round) {
    for (int64_t t = 0; t < tokens; ++t) {
      double sum = kSinkhornEpsilon;
      for (int64_t e = 0; e < experts; ++e) sum += expert[static_cast<size_t>(e)] * at(t, e);
      token[static_cast<size_t>(t)] = 1 / (static_cast<double>(tokens) * sum);
    }
    change = 0;
    for (int64_t e = 0; e < experts; ++e) {
      double sum = kSinkhornEpsilon;
      for (int64_t t = 0; t < tokens; ++t) sum += token[static_cast<size_t>(t)] * at(t, e);
      double& factor = expert[static_cast<size_t>(e)];
      const double next = 1 / (static_cast<double>(experts) * sum);
      change += std::abs(next - factor) / static_cast<double>(experts);
      factor = next;
    }
  }
  for (int64_t e = 0; e < experts; ++e) bias[e] = std::log(expert[static_cast<size_t>(e)]);
}

}  // namespace viaduct::reference
