#pragma once
// A double of cuBLASLt: it reads the descriptors, layouts and preferences that the project makes,
// refuses what the library refuses, and computes on the host with FP32 sums in the order of the
// contracted dim. The library sums in another order, with the same precision.
//
//   - Before operands are read, a MiB at either end of a product's workspace is overwritten with
//     0xFF: an operand that shares it is NaN.
//   - Elements are read and written only by the leading dimensions, so that a wrong one gives wrong
//     numbers, or an error of AddressSanitizer.
//   - An algorithm belongs to the problem for which it was requested: shapes, formats, leading
//     dimensions, scales, multiprocessors and the promised alignment. With another problem it is
//     refused.
//
// Refused as by the library (its documentation, "cublasLtMatmul()" and "Narrow precision data
// types"): FP8 operands other than transposed · plain before compute capability 10.0; e2m1 in any
// other layout; scales that the generation does not support; FP8 and FP4 operands and results whose
// rows do not begin at multiples of 16 bytes; a workspace that is not aligned to 256 bytes.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace cublaslt_double {

/// The compute capability of the GPU (90: H100), for this thread of the system; initially 90.
void set_capability(int capability);
/// The reason why the latest call on this thread failed; empty if it succeeded.
const std::string& latest_refusal();
/// Number of calls of `cublasLtMatmulAlgoGetHeuristic`, and of existing descriptors, on this
/// thread.
int64_t heuristic_calls();
int64_t live_objects();

/// The algorithms that the heuristic ranks for each product, in this order, with the seconds that
/// each takes (to events of the runtime's double). Algorithm i sums i + 1 parts of the contracted
/// dim, so that each has its own bits. In all threads; initially one that takes none. Counts
/// products from here on.
void offer_algorithms(std::vector<double> seconds);
/// Products by the number of their algorithm.
std::vector<int64_t> products();
/// Products since then by the multiprocessors that their kernels may use at most; 0: all.
std::map<int, int64_t> products_by_multiprocessors();
/// The version of the library, in all threads; initially kVersion.
void set_version(size_t version);
inline constexpr size_t kVersion = 130100;

}  // namespace cublaslt_double
