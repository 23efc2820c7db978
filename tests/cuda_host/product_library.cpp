// Where the test machines, which are cpu devices, keep the state of products.

#include "ops/cuda/launch/product_library.h"

namespace viaduct::cuda {

ProductLibrary& product_library(OpContext&) {
  static thread_local ProductLibrary library;
  return library;
}

}  // namespace viaduct::cuda
