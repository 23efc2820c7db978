#pragma once
// A kind of product in cuBLASLt's terms: its descriptors, and the algorithms that the library has
// for it. Included only by product_library.cpp and its own source.

#include <cublasLt.h>

#include <string>
#include <string_view>
#include <vector>

#include "ops/cuda/product_kind.h"

namespace viaduct::cuda {

/// DeviceError with the call, what it was for and the library's reason.
void check_library(cublasStatus_t status, std::string_view call, const std::string& what);

/// An object of the library, destroyed with its owner.
template <class T, cublasStatus_t (*kDestroy)(T)>
class Owned {
 public:
  Owned() = default;
  ~Owned() {
    if (object_ != nullptr) kDestroy(object_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  T* place() { return &object_; }
  T get() const { return object_; }

 private:
  T object_ = nullptr;
};

class ProductPlan {
 public:
  /// DeviceError for a kind that the library cannot describe, or that leaves none of the GPU's
  /// `multiprocessors` to the product.
  ProductPlan(cublasLtHandle_t handle, const ProductKind& kind, const ProductMemory& memory,
              int multiprocessors);

  /// Takes the addresses that change from one product of the kind to the next.
  void set_addresses(const ProductMemory& memory);
  /// Up to `most` algorithms, those first that the heuristic expects to be fast. All of them run in
  /// kLibraryWorkspace and add parts of a sum in FP32 and in one order. DeviceError if there is
  /// none.
  std::vector<cublasLtMatmulAlgo_t> algorithms(int most) const;
  /// DeviceError that begins with `where` if the algorithm is not one for this kind.
  void check(const cublasLtMatmulAlgo_t& algorithm, const std::string& where) const;
  /// The product of `memory`, written to `d`.
  void multiply(const cublasLtMatmulAlgo_t& algorithm, const ProductMemory& memory, void* d,
                Stream stream) const;

 private:
  const cublasLtHandle_t handle_;
  const ProductKind kind_;
  Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> desc_;
  Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> a_, b_, d_;
};

}  // namespace viaduct::cuda
