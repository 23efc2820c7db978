#pragma once
// The formula of xIELU (ops/xielu.h) at one x, in `Real` arithmetic: one definition for backends
// without vectors of their own.

#include <algorithm>
#include <cmath>

#include "ops/xielu.h"

namespace viaduct {

template <class Real>
Real softplus(Real x) {
  return std::max(x, Real(0)) + std::log1p(std::exp(-std::abs(x)));
}

/// The slopes, and their derivatives with respect to the raw values.
template <class Real>
struct XieluSlopes {
  Real positive, negative, of_raw_p, of_raw_n;

  XieluSlopes(Real raw_p, Real raw_n)
      : positive(softplus(raw_p)),
        negative(Real(kXieluBeta) + softplus(raw_n)),
        of_raw_p(1 / (1 + std::exp(-raw_p))),
        of_raw_n(1 / (1 + std::exp(-raw_n))) {}

  /// What the slope of this x multiplies.
  Real basis(Real x) const {
    return x > 0 ? x * x : std::expm1(std::min(x, Real(kXieluEpsilon))) - x;
  }
  Real value(Real x) const {
    return (x > 0 ? positive : negative) * basis(x) + Real(kXieluBeta) * x;
  }
  Real derivative(Real x) const {
    const Real exponential = x < Real(kXieluEpsilon) ? std::exp(x) : Real(0);
    return (x > 0 ? 2 * positive * x : negative * (exponential - 1)) + Real(kXieluBeta);
  }
};

}  // namespace viaduct
