// Where the test machines, which are cpu devices, keep the state of libraries.

#include "ops/cuda/launch/product_library.h"
#include "ops/cuda/launch/attention_library.h"

namespace viaduct::cuda {

ProductLibrary& product_library(OpContext&) {
  static thread_local ProductLibrary library;
  return library;
}

AttentionLibrary& attention_library(OpContext&) {
  static thread_local AttentionLibrary library;
  return library;
}

}  // namespace viaduct::cuda
