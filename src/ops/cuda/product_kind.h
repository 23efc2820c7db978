#pragma once
// What cuBLASLt's choice of an algorithm depends on. No CUDA header.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "ops/cuda/kernels/views.h"
#include "ops/cuda/product_layout.h"

namespace viaduct::cuda {

/// d [a.rows, b.rows] (row-major) = a · bᵀ, (+ d) (+ bias of d's format).
struct ProductKind {
  struct Matrix {
    DType format = DType::f32;
    int64_t rows = 0;       // kept dim
    int64_t stride = 0;     // elements from one row in memory to the next
    int64_t alignment = 0;  // bytes, of the address
    bool contracted_last = true;
    LibraryScales scales = LibraryScales::none;
    auto operator<=>(const Matrix&) const = default;
  };
  Matrix a, b, d;
  int64_t contracted = 0;
  bool accumulate = false, bias = false, device_factor = false;
  int spare_multiprocessors = 0;  // that the kernel must not use
  auto operator<=>(const ProductKind&) const = default;
};

/// Addresses in device memory.
struct ProductMemory {
  const void *a = nullptr, *b = nullptr;
  void* d = nullptr;
  const void *a_scales = nullptr, *b_scales = nullptr, *bias = nullptr;
  const float* factor = nullptr;  // [factor, beta], if the kind has them on the device
  void* workspace = nullptr;      // kProductWorkspace bytes
};

/// Alignments in bytes, as far as a kind knows them.
struct ProductAlignments {
  int64_t a = 0, b = 0, d = 0;
};

/// The kind of the library's product of `gemm`; none if the layout leaves nothing to the library.
std::optional<ProductKind> product_kind(const ProductLayout& layout, const GemmArgs& args,
                                        const ProductAlignments& alignments);

/// The alignment of the address, up to 256 bytes: no kernel of the library needs more.
int64_t alignment_of(const void* data);
/// Those of a product in a dry run: by the places in tensors and workspace, which begin at
/// multiples of what a kind knows.
ProductAlignments planned_alignments(const ProductLayout& layout, const GemmArgs& args);

/// For messages: "f32 [2, 3] = bf16 [2, 4] · bf16 [3, 4] transposedᵀ".
std::string describe(const ProductKind& kind);
/// Everything in the kind, as text: equal for equal kinds alone.
std::string key_of(const ProductKind& kind);
/// Bytes from the first element of d to the end of its last.
int64_t result_bytes(const ProductKind& kind);
/// The same of an operand.
int64_t operand_bytes(const ProductKind& kind, const ProductKind::Matrix& operand);
/// Bytes of its scales in the library's order; 0 without scales.
int64_t scale_bytes(const ProductKind& kind, const ProductKind::Matrix& operand);

}  // namespace viaduct::cuda
