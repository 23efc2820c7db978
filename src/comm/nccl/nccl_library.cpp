// NCCL is loaded when ranks need it: one GPU trains without it.

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/toolkit_library.h"
#include "comm/nccl/nccl_calls.h"

namespace viaduct {
namespace {

constexpr const char* kInstall =
    "install NCCL 2.18 or newer (package libnccl2, or nvidia-nccl-cu13 of PyPI), or name its file "
    "in VIADUCT_NCCL_LIBRARY";

template <class Function>
void find(void* library, const char* place, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  VIADUCT_CHECK(DeviceError, function != nullptr,
                "dist.device=cuda: {} has no function {}, which ranks need to exchange GPU memory: "
                "{}",
                place, name, kInstall);
}

NcclCalls load() {
  const char* named = std::getenv(kNcclLibrary.variable);
  const char* place = named != nullptr ? named : kNcclLibrary.file;
  std::string reasons;
  void* const library =
      open_toolkit_library(kNcclLibrary.file, RTLD_NOW | RTLD_LOCAL, reasons, named);
  if (library == nullptr) {
    fail<DeviceError>(
        "dist.device=cuda: ranks with a GPU each need {}, which cannot be loaded ({}): {}",
        kNcclLibrary.file, reasons, kInstall);
  }
  NcclCalls calls;
#define VIADUCT_NCCL_FIND(name) find(library, place, #name, calls.name);
  VIADUCT_NCCL_CALLS(VIADUCT_NCCL_FIND)
#undef VIADUCT_NCCL_FIND
#define VIADUCT_NCCL_FIND(name) \
  calls.name = reinterpret_cast<decltype(calls.name)>(::dlsym(library, #name));
  VIADUCT_NCCL_SYMMETRIC_CALLS(VIADUCT_NCCL_FIND)
#undef VIADUCT_NCCL_FIND
  return calls;
}

}  // namespace

const NcclCalls& nccl_calls() {
  static const NcclCalls calls = load();
  return calls;
}

}  // namespace viaduct
