#include "nn/moe/moe_config.h"

#include <algorithm>
#include <cmath>

namespace viaduct {
namespace {

/// `factor` times an equal share of `choices` for `takers`, rounded up; 0 for a factor of 0.
int64_t limit_of(double factor, int64_t choices, int64_t takers) {
  if (factor == 0) return 0;
  const double share =
      static_cast<double>(choices) / static_cast<double>(std::max<int64_t>(1, takers));
  constexpr double kMost = 0x1p40;  // more than any memory has rows
  return static_cast<int64_t>(std::clamp(std::ceil(share * factor), 1.0, kMost));
}

}  // namespace

int64_t MoeConfig::capacity(int64_t tokens) const {
  return limit_of(capacity_factor, tokens * routing.topk, experts);
}

int64_t MoeConfig::rank_capacity(int64_t tokens, int64_t ep) const {
  return limit_of(rank_capacity_factor, tokens * routing.topk, ep);
}

}  // namespace viaduct
