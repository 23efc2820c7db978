// Replaces src/ops/cuda/launch/cudnn_library.cpp: the functions of the double, which is linked.

#include "ops/cuda/launch/cudnn_calls.h"
#include "ops/cuda/launch/cudnn_version.h"

namespace viaduct::cuda {

const CudnnCalls& cudnn_calls() {
#define CUDNN_DOUBLE_CALL(name) &::name,
  static const CudnnCalls calls{VIADUCT_CUDNN_CALLS(CUDNN_DOUBLE_CALL)};
#undef CUDNN_DOUBLE_CALL
  check_cudnn_version(calls.cudnnGetVersion());  // of the double, which tests may change
  return calls;
}

}  // namespace viaduct::cuda
