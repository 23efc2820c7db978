#pragma once
// The GPUs that kernels are compiled for.

#include <optional>
#include <string_view>

namespace viaduct {

/// By compute capability; the `a` forms have instructions of only that architecture (wgmma,
/// tcgen05): A100, H100 and H200, B200.
enum class CudaTarget { sm_80, sm_90a, sm_100a };
inline constexpr CudaTarget kCudaTargets[] = {CudaTarget::sm_80, CudaTarget::sm_90a,
                                              CudaTarget::sm_100a};

std::string_view cuda_target_name(CudaTarget target);
/// Nothing for other names.
std::optional<CudaTarget> cuda_target_of(std::string_view name);

}  // namespace viaduct
