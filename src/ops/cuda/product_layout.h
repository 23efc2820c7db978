#pragma once
// How a product of `gemm` is passed to cuBLASLt: from the arguments of the op, by shapes and forms
// only, so that a dry run has the same launches and workspace as a run.
//
// The library reads an operand as [kept, contracted] rows with scales in an order of its own. A
// quantized operand's values are copied into the workspace where the library does not read them in
// place (transposed but on sm_100a, and for e2m1; padded to 16 bytes); its scales always are,
// unless there is one for the whole matrix:
//
//   scaling  sm_90a                               sm_100a
//   tensor   the scale itself                     the same (and on sm_89, sm_120)
//   blocks   FP32 scales of 1 × 128, 128 × 128    their powers of two as E8M0 scales of 32 elements
//   mx                                            E8M0 scales of 32 elements
//   nvfp4                                         E4M3 scales of 16 elements; the scales of both
//                                                 matrices are the factor of the product
//
// (cuBLAS 13 documentation, "Narrow precision data types usage".)

#include <string>

#include "hardware/cuda_target.h"
#include "ops/gemm.h"

namespace viaduct::cuda {

/// cuBLASLt chooses among its kernels by the workspace: the same for all products.
inline constexpr int64_t kProductWorkspace = int64_t{32} << 20;
/// The part of it that remains after aligning its start to 256 bytes.
inline constexpr int64_t kLibraryWorkspace = kProductWorkspace - 256;

/// Products of quantized operands have a multiple of this many columns: a row of them in 8 bits is
/// 16 bytes.
inline constexpr int64_t kQuantizedColumns = 16;

/// Groups of elements that share a scale, as the library orders them.
enum class LibraryScales : uint8_t {
  none,
  matrix,       // f32 [1]
  lines_128,    // f32, 128 elements along the contracted dim: [groups, kept]
  squares_128,  // f32, 128 × 128: [kept / 128, groups padded to a multiple of 4]
  lines_32,     // e8m0, 32 elements along the contracted dim, in tiles of 128 × 4
  lines_16,     // e4m3, 16 elements, in tiles of 128 × 4
};

/// An operand as the library reads it.
struct LibraryOperand {
  DType format = DType::f32;    // e2m1x2: two elements in a byte
  int64_t kept = 0;             // rows, padded where the library requires it
  bool contracted_last = true;  // [kept, contracted]; else [contracted, kept]
  int64_t stride = 0;           // elements from one row in memory to the next
  LibraryScales scales = LibraryScales::none;
  bool copied = false;
  int64_t values_at = 0, scales_at = 0;  // bytes in the workspace, of copied values
  int64_t values_bytes = 0, scales_bytes = 0;
  /// Scales in the library's order: sizes with their padding.
  int64_t scale_rows = 0, scale_columns = 0;
};

struct ProductLayout {
  LibraryOperand a, b;
  int64_t rows = 0, columns = 0;  // of the product [rows, columns], without padding
  int64_t contracted = 0;         // padded
  /// The product is written to a place of its own, dense rows of `place` at `product_at`: its sums
  /// are kept there for an FP32 bias or for padded rows, or an activation's gradient is computed
  /// from it.
  bool own_place = false;
  DType place = DType::f32;
  int64_t product_at = 0;
  bool library_bias = false;   // added by the library
  bool device_factor = false;  // [factor, beta] f32 at `factor_at`
  int64_t factor_at = 0;
  int64_t forms_at = 0;  // of the forms of an activation
  int64_t workspace_bytes = kProductWorkspace;
  int launches = 1;
  int64_t bytes_read = 0, bytes_written = 0;  // beyond the contract's
};

/// DeviceError for operands that the target's library cannot multiply.
ProductLayout product_layout(const GemmArgs& args, CudaTarget target);

/// Whether the target has products of operands quantized like this: empty if so, else the products
/// that it has.
std::string missing_products(const Quantization& quantization, CudaTarget target);
/// DeviceError with that.
void check_quantization(const Quantization& quantization, CudaTarget target);

}  // namespace viaduct::cuda
