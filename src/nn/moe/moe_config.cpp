#include "nn/moe/moe_config.h"

#include <algorithm>
#include <cmath>

namespace viaduct {

int64_t MoeConfig::capacity(int64_t tokens) const {
  if (capacity_factor == 0) return 0;
  const double share = static_cast<double>(tokens * routing.topk) /
                       static_cast<double>(std::max<int64_t>(1, experts));
  constexpr double kMost = 0x1p40;  // more than any memory has rows
  const double rows = std::ceil(share * capacity_factor);
  return static_cast<int64_t>(std::clamp(rows, 1.0, kMost));
}

}  // namespace viaduct
