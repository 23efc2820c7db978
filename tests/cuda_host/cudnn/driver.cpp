// A double of the CUDA driver, libcuda.so.1, for plans that cuDNN makes without a GPU: loading code
// succeeds, and nothing can be run.

namespace {
constexpr int kNotPermitted = 800;
void* some_object() {
  static char object;
  return &object;
}
}  // namespace

// cuDNN calls these with arguments of its own, which are not read.
#define SUCCEEDS(name)    \
  extern "C" int name() { \
    return 0;             \
  }
#define GIVES_AN_OBJECT(name)         \
  extern "C" int name(void** place) { \
    *place = some_object();           \
    return 0;                         \
  }
#define REFUSES(name)     \
  extern "C" int name() { \
    return kNotPermitted; \
  }

GIVES_AN_OBJECT(cuLibraryLoadData)
GIVES_AN_OBJECT(cuLibraryLoadFromFile)
GIVES_AN_OBJECT(cuLibraryGetKernel)
GIVES_AN_OBJECT(cuModuleLoadData)
GIVES_AN_OBJECT(cuModuleLoadDataEx)
GIVES_AN_OBJECT(cuModuleLoadFatBinary)
GIVES_AN_OBJECT(cuModuleGetFunction)
SUCCEEDS(cuLibraryUnload)
SUCCEEDS(cuModuleUnload)
SUCCEEDS(cuFuncGetAttribute)
SUCCEEDS(cuFuncSetAttribute)
SUCCEEDS(cuKernelGetAttribute)
SUCCEEDS(cuKernelSetAttribute)
REFUSES(cuInit)
REFUSES(cuCtxGetCurrent)
REFUSES(cuCtxGetDevice)
REFUSES(cuCtxGetLimit)
REFUSES(cuCtxPopCurrent)
REFUSES(cuCtxPushCurrent)
REFUSES(cuDeviceGet)
REFUSES(cuDeviceGetAttribute)
REFUSES(cuDeviceGetCount)
REFUSES(cuDevicePrimaryCtxRelease)
REFUSES(cuDevicePrimaryCtxReset)
REFUSES(cuDevicePrimaryCtxRetain)
REFUSES(cuDriverGetVersion)
REFUSES(cuGetErrorName)
REFUSES(cuGetErrorString)
REFUSES(cuLaunchCooperativeKernel)
REFUSES(cuLaunchKernel)
REFUSES(cuLaunchKernelEx)
REFUSES(cuLinkAddData)
REFUSES(cuLinkAddData_v2)
REFUSES(cuLinkAddFile_v2)
REFUSES(cuLinkComplete)
REFUSES(cuLinkCreate)
REFUSES(cuLinkCreate_v2)
REFUSES(cuLinkDestroy)
REFUSES(cuMemcpyDtoH_v2)
REFUSES(cuModuleGetGlobal_v2)
REFUSES(cuOccupancyMaxActiveBlocksPerMultiprocessor)
REFUSES(cuOccupancyMaxPotentialClusterSize)
REFUSES(cuStreamGetCtx)
REFUSES(cuStreamSynchronize)
REFUSES(cuTensorMapEncodeTiled)
