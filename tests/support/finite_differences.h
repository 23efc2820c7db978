#pragma once
// Compares gradients with finite differences, in FP64.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "engine/engine.h"

namespace viaduct::test {

/// Compares the gradient of one parameter with the change of `loss()` along a random direction over
/// all its elements. Restores the values afterwards.
template <class Loss>
void expect_slope(Engine& engine, const Parameter& p, std::mt19937& random, Loss&& loss) {
  std::normal_distribution<double> normal;
  const int64_t n = p.shape.elements();
  double* values = engine.store().master(p).template data<double>();
  const double* gradient = engine.store().main_gradient(p).template data<double>();
  const std::vector<double> original(values, values + n);
  std::vector<double> direction(static_cast<size_t>(n));
  double expected = 0, size = 0;
  for (int64_t i = 0; i < n; ++i) {
    direction[static_cast<size_t>(i)] = normal(random);
    expected += gradient[i] * direction[static_cast<size_t>(i)];
    size += std::abs(gradient[i] * direction[static_cast<size_t>(i)]);
  }
  const double step = 1e-5;
  double side[2];
  for (int s = 0; s < 2; ++s) {
    for (int64_t i = 0; i < n; ++i)
      values[i] = original[static_cast<size_t>(i)] +
                  (s == 0 ? step : -step) * direction[static_cast<size_t>(i)];
    side[s] = loss();
  }
  std::copy(original.begin(), original.end(), values);
  EXPECT_NEAR((side[0] - side[1]) / (2 * step), expected, 1e-6 * (1 + size)) << p.path;
}

}  // namespace viaduct::test
