#include "optim/large_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace viaduct {

std::string LargeGradients::look(const std::vector<double>& norms) {
  largest_.resize(norms.size(), 0);
  if (updates_ < kSamples) {
    ++updates_;
    for (size_t i = 0; i < norms.size(); ++i) {
      if (std::isfinite(norms[i])) largest_[i] = std::max(largest_[i], norms[i]);
    }
    return "";
  }
  for (size_t i = 0; i < norms.size(); ++i) {
    // A bucket with only zero gradients so far has no reference norm.
    if (!std::isfinite(norms[i]) || largest_[i] == 0 || norms[i] < kFactor * largest_[i]) continue;
    return fmt::format(
        "gradient of bucket {} has norm {:.4g}, the largest of the first {} updates "
        "was {:.4g}",
        i, norms[i], kSamples, largest_[i]);
  }
  return "";
}

}  // namespace viaduct
