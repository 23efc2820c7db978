#include "data/blend.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "data/split.h"

namespace viaduct {
namespace {

void check_count(size_t datasets) {
  VIADUCT_CHECK(ConfigError, datasets >= 1 && datasets < 32767,
                "a blend of {} data sets, expected 1 to 32766", datasets);
}

}  // namespace

BlendIndex build_blend_index(const std::vector<double>& weights, int64_t size) {
  check_count(weights.size());
  const std::vector<double> share = normalize_weights(weights);
  std::vector<int64_t> taken(share.size());
  BlendIndex index;
  index.dataset_index.reserve(static_cast<size_t>(size));
  index.dataset_sample_index.reserve(static_cast<size_t>(size));
  for (int64_t sample = 0; sample < size; ++sample) {
    const double position = std::max(static_cast<double>(sample), 1.0);
    size_t furthest = 0;
    double largest = share[0] * position - static_cast<double>(taken[0]);
    for (size_t i = 1; i < share.size(); ++i) {
      const double behind = share[i] * position - static_cast<double>(taken[i]);
      if (behind > largest) largest = behind, furthest = i;
    }
    index.dataset_index.push_back(static_cast<int16_t>(furthest));
    index.dataset_sample_index.push_back(taken[furthest]++);
  }
  return index;
}

BlendIndex build_exhaustive_blend_index(const std::vector<int64_t>& sizes) {
  check_count(sizes.size());
  const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  std::vector<int64_t> taken(sizes.size());
  BlendIndex index;
  index.dataset_index.reserve(static_cast<size_t>(total));
  index.dataset_sample_index.reserve(static_cast<size_t>(total));
  for (int64_t sample = 0; sample < total; ++sample) {
    const double position = std::max(static_cast<double>(sample), 1.0);
    size_t furthest = 0;
    double largest = std::numeric_limits<double>::lowest();
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (taken[i] == sizes[i]) continue;
      const double share = static_cast<double>(sizes[i]) / static_cast<double>(total);
      const double behind = share * position - static_cast<double>(taken[i]);
      if (behind > largest) largest = behind, furthest = i;
    }
    index.dataset_index.push_back(static_cast<int16_t>(furthest));
    index.dataset_sample_index.push_back(taken[furthest]++);
  }
  return index;
}

int64_t blend_share(double weight, int64_t size, double surplus) {
  VIADUCT_CHECK(ConfigError, size >= 0 && size <= int64_t{1} << 53,
                "a blend of {} samples, expected 0 to 2^53", size);
  return static_cast<int64_t>(
      std::ceil(std::ceil(static_cast<double>(size) * weight) * (1 + surplus)));
}

}  // namespace viaduct
