// cuDNN is loaded when attention needs it: other runs train without it.

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/toolkit_library.h"
#include "ops/cuda/launch/cudnn_calls.h"
#include "ops/cuda/launch/cudnn_version.h"

namespace viaduct::cuda {
namespace {

template <class Function>
void find(void* library, const char* place, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  VIADUCT_CHECK(DeviceError, function != nullptr,
                "model.attention_backend=fused: {} has no function {}: {}", place, name,
                kInstallCudnn);
}

CudnnCalls load() {
  const char* named = std::getenv(kCudnnLibrary.variable);
  const char* place = named != nullptr ? named : kCudnnLibrary.file;
  std::string reasons;
  void* const library =
      open_toolkit_library(kCudnnLibrary.file, RTLD_NOW | RTLD_LOCAL, reasons, named);
  VIADUCT_CHECK(DeviceError, library != nullptr,
                "model.attention_backend=fused needs {}, which cannot be loaded ({}): {}",
                kCudnnLibrary.file, reasons, kInstallCudnn);
  CudnnCalls calls;
#define VIADUCT_CUDNN_FIND(name) find(library, place, #name, calls.name);
  VIADUCT_CUDNN_CALLS(VIADUCT_CUDNN_FIND)
#undef VIADUCT_CUDNN_FIND
  check_cudnn_version(calls.cudnnGetVersion());
  return calls;
}

}  // namespace

const CudnnCalls& cudnn_calls() {
  static const CudnnCalls calls = load();
  return calls;
}

}  // namespace viaduct::cuda
