#pragma once
// Helpers that build the costs of ops (ops/costs.h).

#include <initializer_list>

#include "ops/costs.h"

namespace viaduct {

inline double count(const Tensor& tensor) {
  return static_cast<double>(tensor.elements());
}

/// These operations, and the bytes of each operand once.
inline Cost make_cost(DType dtype, double flops, std::initializer_list<const Tensor*> read,
                      std::initializer_list<const Tensor*> written) {
  Cost cost;
  add_vector_flops(cost, dtype, flops);
  for (const Tensor* tensor : read) cost.bytes_read += bytes_of(*tensor);
  for (const Tensor* tensor : written) cost.bytes_written += bytes_of(*tensor);
  return cost;
}

/// Operations per element of an activation, and of its gradient.
double activation_forward_flops(ActivationKind kind, bool gated);
double activation_backward_flops(ActivationKind kind, bool gated);

/// Operations per column of a softmax: subtraction, exponential (a polynomial of degree 7) and sum.
inline constexpr double kSoftmaxFlops = 20;

}  // namespace viaduct
