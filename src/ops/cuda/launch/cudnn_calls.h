#pragma once
// The functions of cuDNN that attention uses, as the library that a process found gives them.

#include <cudnn_graph.h>

#define VIADUCT_CUDNN_CALLS(X)     \
  X(cudnnGetVersion)               \
  X(cudnnCreate)                   \
  X(cudnnDestroy)                  \
  X(cudnnSetStream)                \
  X(cudnnGetErrorString)           \
  X(cudnnGetLastErrorString)       \
  X(cudnnBackendCreateDescriptor)  \
  X(cudnnBackendDestroyDescriptor) \
  X(cudnnBackendFinalize)          \
  X(cudnnBackendSetAttribute)      \
  X(cudnnBackendGetAttribute)      \
  X(cudnnBackendExecute)

namespace viaduct::cuda {

struct CudnnCalls {
#define VIADUCT_CUDNN_MEMBER(name) decltype(&::name) name;
  VIADUCT_CUDNN_CALLS(VIADUCT_CUDNN_MEMBER)
#undef VIADUCT_CUDNN_MEMBER
};

/// Loads the library at the first call: the file that VIADUCT_CUDNN_LIBRARY names, or libcudnn.so.9
/// where the system looks for libraries or beside the CUDA toolkit. DeviceError that says what is
/// missing, or too old, and what to install.
const CudnnCalls& cudnn_calls();

}  // namespace viaduct::cuda
