// Plans of the real cuDNN for attention, made from the properties of a GPU that is not there. They
// say that the library accepts our graphs for each target, and what workspace it asks for; nothing
// is computed. Skipped where cuDNN is not installed.

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>

#include "ops/cuda/launch/cudnn_attention.h"

namespace viaduct::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Properties as a device would report them; capability 90: 9.0.
std::string properties(int capability) {
  return fmt::format(
      R"({{"deviceVer":{},"driverVer":13000,"cudaDeviceId":0,"totalGlobalMem":150754820096,)"
      R"("maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
      R"("regsPerBlock":65536,"multiProcessorCount":132,"warpSize":32,)"
      R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":{},)"
      R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,)"
      R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
      R"("supportCoopLaunch":1,"smClockRateKHz":1980000,"memClockRateKHz":3201000,)"
      R"("l2CacheSize":62914560,"deviceName":"a GPU"}})",
      10 * capability,
      capability >= 120  ? 101376
      : capability >= 90 ? 232448
                         : 166912);
}

LibraryAttention kind_of(int64_t documents, int64_t heads, int64_t kv_heads, int64_t queries,
                         int64_t keys, int64_t width, int64_t value_width) {
  LibraryAttention kind;
  kind.causal = queries == keys;
  kind.documents = documents, kind.heads = heads, kind.kv_heads = kv_heads;
  kind.queries = queries, kind.keys = keys, kind.width = width, kind.value_width = value_width;
  kind.all_queries = documents * queries, kind.all_heads = heads, kind.all_kv_heads = kv_heads;
  kind.q = {heads * width, width};
  kind.k = {kv_heads * width, width}, kind.v = {kv_heads * value_width, value_width};
  kind.out = kind.d_out = {heads * value_width, value_width};
  return kind;
}

// The first test: a library that was found is kept.
TEST(CudnnLibrary, AMissingLibraryIsNamedWithWhatToInstall) {
  ::setenv("VIADUCT_CUDNN_LIBRARY", "/nowhere/libcudnn.so.9", 1);
  EXPECT_THAT([] { cudnn_calls(); },
              ThrowsMessage<DeviceError>(AllOf(HasSubstr("/nowhere/libcudnn.so.9"),
                                               HasSubstr("install cuDNN 9.10 or newer"))));
  ::unsetenv("VIADUCT_CUDNN_LIBRARY");
}

class CudnnPlans : public testing::Test {
 protected:
  void SetUp() override {
    // The library finds the driver by its name, which is that of a library that is loaded already.
    ASSERT_NE(::dlopen(VIADUCT_DRIVER_DOUBLE, RTLD_NOW | RTLD_GLOBAL), nullptr) << ::dlerror();
    try {
      calls_ = &cudnn_calls();
    } catch (const DeviceError& error) {
      GTEST_SKIP() << error.what();
    }
  }
  /// Bytes that the library asks for.
  int64_t workspace(int capability, const LibraryAttention& kind) const {
    const CudnnDescriptor device(*calls_, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    const std::string text = properties(capability);
    device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
               static_cast<int64_t>(text.size()), text.data());
    device.finalize();
    return cudnn_attention_plan(*calls_, kind, {nullptr, &device}).workspace_bytes();
  }

  const CudnnCalls* calls_ = nullptr;
};

TEST_F(CudnnPlans, EveryTargetHasPlansWithinTheBound) {
  for (const int capability : {80, 90, 100, 120}) {
    for (LibraryAttention kind :
         {kind_of(1, 8, 8, 2048, 2048, 128, 128), kind_of(2, 8, 2, 1000, 1000, 64, 64),
          kind_of(3, 4, 4, 129, 65, 40, 72)}) {
      for (const bool backward : {false, true}) {
        kind.backward = backward;
        kind.format = backward ? DType::f16 : DType::bf16;
        SCOPED_TRACE(fmt::format("{} {} {}", capability, backward, kind.queries));
        const int64_t bytes = workspace(capability, kind);
        EXPECT_LE(bytes, library_workspace(kind));
        // Not far above it either: the plan of memory holds the bound.
        if (backward) {
          EXPECT_GE(bytes, library_workspace(kind) / 2);
        }
      }
    }
  }
}

TEST_F(CudnnPlans, PartsOfAnOpHaveItsStrides) {
  LibraryAttention kind = kind_of(2, 8, 4, 256, 256, 64, 64);
  kind.backward = true;
  kind.documents = 1, kind.heads = 4, kind.kv_heads = 2;
  EXPECT_LE(workspace(90, kind), library_workspace(kind));
}

TEST_F(CudnnPlans, WhatHasNoPlanIsNamed) {
  const LibraryAttention kind = kind_of(1, 8, 8, 256, 256, 100, 100);
  EXPECT_THAT([&] { workspace(90, kind); },
              ThrowsMessage<DeviceError>(AllOf(
                  HasSubstr("attention_forward: bf16 [1 × 256 queries, 8 heads, 100]"),
                  HasSubstr("has no kernel for it"), HasSubstr("attention_backend to flash"))));
}

}  // namespace
}  // namespace viaduct::cuda
