#pragma once
// What quantization does to a matrix: the measurements of `tensor_inspect`.

#include "ops/reference/scaled_operand.h"

namespace viaduct::reference {

/// Sums over elements, so that matrices add up.
struct QuantizationError {
  double elements = 0;
  double nonzero = 0;       // elements that were not 0
  double underflows = 0;    // of these, how many became 0
  double overflows = 0;     // elements that were saturated: beyond the format's largest × scale
  double not_finite = 0;    // elements that are infinity or NaN, which are in no other count
  double square = 0;        // sum of the squares of the elements
  double error_square = 0;  // sum of the squares of the errors of the values
  double amax = 0;          // largest magnitude of the finite elements
  double least_scale = 0, most_scale = 0;  // of the values; of two, groups times matrix

  bool operator==(const QuantizationError&) const = default;
  double relative_error() const;  // √(error_square / square); 0 of zeros
  void merge(const QuantizationError& other);
};

/// Compares `matrix` [R, C] with the matrix that `operand`, in a form that is not rotated,
/// represents. Both are in memory that the host reads.
QuantizationError quantization_error(const Tensor& matrix, const Operand& operand);

}  // namespace viaduct::reference
