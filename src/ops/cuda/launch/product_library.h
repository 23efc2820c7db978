#pragma once
// cuBLASLt: a handle, and for each kind of product its descriptors and the algorithm that the
// library's heuristic ranks first, created at the first product of the kind. No CUDA header.
//
// Sums are FP32 (no TF32); parts of a sum that the library computes separately are added in FP32,
// in an order of its own that is fixed for each kind of product.

#include <compare>
#include <cstdint>
#include <memory>
#include <string>

#include "ops/cuda/kernels/views.h"
#include "ops/cuda/product_layout.h"

namespace viaduct::cuda {

/// What the library's choice depends on: d [a.rows, b.rows] (row-major) = a · bᵀ, (+ d) (+ bias of
/// d's format).
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

/// The alignment of the address, up to 16 bytes: no kernel needs more.
int64_t alignment_of(const void* data);

class ProductLibrary {
 public:
  /// DeviceError if the library cannot be initialised.
  ProductLibrary();
  ~ProductLibrary();
  ProductLibrary(const ProductLibrary&) = delete;
  ProductLibrary& operator=(const ProductLibrary&) = delete;

  /// DeviceError with the library's reason for a product that it does not support.
  void multiply(const ProductKind& kind, const ProductMemory& memory, Stream stream);
  /// Kinds of products so far.
  int64_t kinds() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Of the library, "13.1.0".
std::string product_library_version();

/// The library of the context's device, which keeps it from launch to launch. The device defines
/// it.
ProductLibrary& product_library(OpContext& context);

}  // namespace viaduct::cuda
