#pragma once
// A double of cuBLASLt: it reads the descriptors, layouts and preferences that the project makes,
// refuses what the library refuses, and computes on the host with FP32 sums in the order of the
// contracted dim. The sums of the library have another order; their precision is the same.
//
//   - The workspace that a product is given is overwritten with 0xFF before operands are read, a
//   MiB
//     at either end: whoever shares it finds NaN.
//   - Elements are read and written by the leading dimensions alone, so that a wrong one gives
//   wrong
//     numbers, or an error of AddressSanitizer.
//   - An algorithm belongs to the problem it was asked for: shapes, formats, leading dimensions,
//     scales and the alignment that was promised. With another problem it is refused.
//
// Refused as by the library (its documentation, "cublasLtMatmul()" and "Narrow precision data
// types"): FP8 other than transposed · plain before compute capability 10.0; e2m1 other than that;
// scales that the generation does not have; operands of FP8 and FP4 and results whose rows do not
// begin at multiples of 16 bytes; a workspace not aligned to 256 bytes.

#include <cstdint>
#include <string>

namespace cublaslt_double {

/// The compute capability of the GPU (90: H100), of this thread of the system; 90 at first.
void set_capability(int capability);
/// Why the latest call on this thread did not succeed; empty if it did.
const std::string& latest_refusal();
/// Calls of `cublasLtMatmulAlgoGetHeuristic` and descriptors in existence, on this thread.
int64_t heuristic_calls();
int64_t live_objects();

}  // namespace cublaslt_double
