#pragma once
// What quantization does to the operands of products: each element x compared with the number that
// its code represents. The measurements of `tensor_inspect`.

#include <limits>

#include "ops/dispatch.h"
#include "ops/quantization_sums.h"
#include "ops/stochastic_rounding.h"
#include "tensor/operand.h"

namespace viaduct {

/// The figures of a matrix, or of several together: most are sums over elements (ErrorSum).
struct QuantizationError {
  double elements = 0;
  double nonzero = 0;       // elements that were not 0
  double underflows = 0;    // of these, how many became 0
  double overflows = 0;     // elements that were saturated: beyond the format's largest × scale
  double not_finite = 0;    // elements that are infinity or NaN, which are in no other count
  double square = 0;        // sum of the squares of the elements
  double error_square = 0;  // sum of the squares of the errors of the values
  double amax = 0;          // largest magnitude of the finite elements
  // Scales of the finite elements, where they are numbers; of two, groups times matrix. The least
  // of none is infinity.
  double least_scale = std::numeric_limits<double>::infinity(), most_scale = 0;

  bool operator==(const QuantizationError&) const = default;
  double relative_error() const;  // √(error_square / square); 0 of zeros
  void merge(const QuantizationError& other);
};

/// The figures in a row of sums [kErrorSums] in memory that the host reads.
QuantizationError error_of_sums(const double* sums);

/// sums [G, kErrorSums] += the sums over the elements of each of G matrices. Rows of zeros are sums
/// of nothing. The matrices lie one after the other in `matrix` [R, K]: G of R / G rows, or with
/// `offsets` those of the rows [offsets[g], offsets[g + 1]); rows beyond belong to none. What is
/// compared with them is either
///   - `operand` [R, K], made earlier: a stack of G, or one; without offsets. Or
///   - if it is undefined, the operand in `form` that `convert_operand` would make of each matrix
///     alone, made here, in the op's workspace.
/// Forms are quantized, row-major, and not rotated.
///
/// Numbers and largest values are exact. Σ x² and Σ (value − x)² are sums in FP64 of exact terms,
/// in one order, which depends on the shape alone: row r of a matrix in P parts (error_parts) is
/// in part r / 8 mod P; eight rows of a part are summed side by side, each by runs of 8 columns
/// in 32 lanes: an element adds to the sum of its lane. Lanes are added in pairs of distance 16, 8,
/// 4, 2, 1, then the sums of eight rows in order, then the parts in order. So all devices have the
/// same bits. A sum that is not a number is the quiet NaN with a positive sign.
struct QuantizationErrorArgs {
  Tensor matrix;  // f32, bf16 or f16 [R, K], dense rows
  Operand operand = {};
  OperandForm form = {};
  Tensor sums = {};     // f64 [G, kErrorSums], contiguous
  Tensor offsets = {};  // i32 [G + 1], offsets[0] = 0
  /// f32 [G], where `form` has a scale of the whole matrix: the largest magnitudes that scales are
  /// made for.
  Tensor amax = {};
  /// As of `convert_operand`, or with offsets as of `grouped_gemm`.
  StochasticRounding rounding = {};
};

void quantization_error(OpContext& context, const QuantizationErrorArgs& args);

/// The form of what is compared.
inline const OperandForm& measured_form(const QuantizationErrorArgs& args) {
  return args.operand ? args.operand.form() : args.form;
}

}  // namespace viaduct
