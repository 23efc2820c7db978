#pragma once
// What is summed of a quantized operand's elements, and in which order (ops/quantization_error.h).
// Plain types: kernels include it.

#include <cstdint>

namespace viaduct {

/// The places in a row of sums, f64. Numbers of elements are whole.
enum ErrorSum {
  kErrorElements,
  kErrorNonzero,      // elements that are not 0
  kErrorUnderflows,   // of these, how many became 0
  kErrorOverflows,    // elements beyond the format's largest × scale: saturated
  kErrorNotFinite,    // infinity or NaN, which are in no other number than kErrorElements
  kErrorSquare,       // Σ x²
  kErrorErrorSquare,  // Σ (value − x)²
  kErrorAmax,         // largest |x|
  kErrorLeastScale,   // of elements whose scale is a number; infinity if there is none
  kErrorMostScale,
  kErrorSums
};

/// Rows of a part that are summed side by side, runs of columns of a row likewise, and the columns
/// of a run.
inline constexpr int kErrorRows = 8, kErrorLanes = 32, kErrorRun = 8;

/// The parts in which each of `matrices` matrices with `rows` rows in all is summed. Their number
/// depends on the shape alone.
inline int64_t error_parts(int64_t rows, int64_t matrices) {
  constexpr int64_t kRowsOfPart = 16, kMostParts = 512;
  const int64_t parts = (rows + kRowsOfPart - 1) / kRowsOfPart;
  const int64_t most = matrices < kMostParts ? kMostParts / matrices : 1;
  return parts < 1 ? 1 : parts < most ? parts : most;
}

}  // namespace viaduct
