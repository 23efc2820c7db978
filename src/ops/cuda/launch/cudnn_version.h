#pragma once
// Which cuDNN attention needs: since 9.10 a masked score may be −∞. No CUDA header.

#include <cstddef>

#include "base/error.h"

namespace viaduct::cuda {

inline constexpr const char* kInstallCudnn =
    "install cuDNN 9.10 or newer (package libcudnn9-cuda-13, or nvidia-cudnn-cu13 of PyPI) or name "
    "its libcudnn.so.9 in VIADUCT_CUDNN_LIBRARY; model.attention_backend=flash needs none";

/// DeviceError for a library that attention cannot use. `version` is cudnnGetVersion's.
inline void check_cudnn_version(size_t version) {
  constexpr size_t kOldest = 91000;
  VIADUCT_CHECK(DeviceError, version >= kOldest,
                "model.attention_backend=fused: cuDNN is version {}.{}.{}: {}", version / 10000,
                version / 100 % 100, version % 100, kInstallCudnn);
}

}  // namespace viaduct::cuda
