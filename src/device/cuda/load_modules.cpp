#include "device/cuda/load_modules.h"

#include "base/log.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/driver_call.h"

namespace viaduct {
namespace {

/// The version of CUDA since which the driver can list the functions of a module.
constexpr unsigned kVersion = 12040;

struct ModuleCalls {
  decltype(&cuFuncGetModule) module_of = nullptr;
  decltype(&cuModuleGetFunctionCount) count = nullptr;
  decltype(&cuModuleEnumerateFunctions) list = nullptr;
  decltype(&cuFuncLoad) load = nullptr;

  bool find() {
    return find_driver_call(module_of, "cuFuncGetModule", kVersion) &&
           find_driver_call(count, "cuModuleGetFunctionCount", kVersion) &&
           find_driver_call(list, "cuModuleEnumerateFunctions", kVersion) &&
           find_driver_call(load, "cuFuncLoad", kVersion);
  }
};

void load_module_of(const void* kernel, const ModuleCalls& calls) {
  cudaFunction_t one = nullptr;
  check_cuda(cudaGetFuncBySymbol(&one, kernel), "cudaGetFuncBySymbol");
  CUmodule module = nullptr;
  check_driver(calls.module_of(&module, one), "cuFuncGetModule");
  unsigned count = 0;
  check_driver(calls.count(&count, module), "cuModuleGetFunctionCount");
  std::vector<CUfunction> functions(count);
  check_driver(calls.list(functions.data(), count, module), "cuModuleEnumerateFunctions");
  for (CUfunction function : functions) check_driver(calls.load(function), "cuFuncLoad");
}

}  // namespace

void load_modules(const std::vector<const void*>& kernels) {
  ModuleCalls calls;
  if (!calls.find())
    return log_info(
        "cuda: the driver cannot load kernels before they are launched (CUDA 12.4 can): their "
        "first launches may wait for operations with other ranks");
  for (const void* kernel : kernels) load_module_of(kernel, calls);
}

}  // namespace viaduct
