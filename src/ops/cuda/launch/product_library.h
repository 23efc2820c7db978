#pragma once
// cuBLASLt: a handle, and for each kind of product its descriptors and its algorithm, created at
// the first product of the kind. No CUDA header.
//
// Sums are FP32 (no TF32); parts of a sum that the library computes separately are added in FP32,
// in an order of its own that is fixed for each algorithm. A kind has one algorithm: the one that
// the library's heuristic ranks first, or with `choose_by_time` the fastest of its first ones.

#include <cstdint>
#include <memory>
#include <string>

#include "ops/cuda/algorithm_file.h"
#include "ops/cuda/launch/scratch_places.h"
#include "ops/cuda/product_kind.h"

namespace viaduct::cuda {

class ProductLibrary {
 public:
  /// DeviceError if the library cannot be initialised.
  ProductLibrary();
  ~ProductLibrary();
  ProductLibrary(const ProductLibrary&) = delete;
  ProductLibrary& operator=(const ProductLibrary&) = delete;

  /// From here on a kind has the algorithm that the file names. For a kind that it does not name,
  /// the first algorithms of the heuristic are timed at its first product, and the fastest is added
  /// to the file. They are not timed, and the heuristic's first is added, if that product is
  /// captured into a graph, or if the GPU has no room for a second result. `source.library` is
  /// filled in here. Errors as those of AlgorithmFile.
  void choose_by_time(const std::filesystem::path& file, AlgorithmSource source);

  /// DeviceError with the library's reason for a product that it does not support, or if it refuses
  /// the algorithm of the file.
  void multiply(const ProductKind& kind, const ProductMemory& memory, Stream stream);
  /// Makes the kind ready: its first product, of whatever is in the memory, which is overwritten.
  /// Nothing is made if its operands do not fit there.
  void prepare(const ProductKind& kind, ScratchPlaces memory, Stream stream);
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
