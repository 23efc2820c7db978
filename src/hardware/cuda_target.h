#pragma once
// The GPUs that kernels are compiled for.

#include <optional>
#include <string_view>

namespace viaduct {

/// By compute capability: A100 and RTX 30; L40S and RTX 40; H100 and H200; B200 and B300; RTX 50
/// and RTX PRO. The `a` forms have instructions of only that architecture (wgmma, tcgen05).
enum class CudaTarget { sm_80, sm_89, sm_90a, sm_100a, sm_120 };
inline constexpr CudaTarget kCudaTargets[] = {CudaTarget::sm_80, CudaTarget::sm_89,
                                              CudaTarget::sm_90a, CudaTarget::sm_100a,
                                              CudaTarget::sm_120};

std::string_view cuda_target_name(CudaTarget target);
/// Nothing for other names.
std::optional<CudaTarget> cuda_target_of(std::string_view name);

/// The code that the kernels of a target are compiled to, as nvcc calls its architecture: "100f" is
/// of the family 10.x, for sm_100a, whose kernels use nothing of one architecture alone so far.
std::string_view cuda_target_code(CudaTarget target);
/// The target of a GPU (103: compute capability 10.3). GPUs after the newest target compile its
/// code when they load it (PTX). Nothing for a GPU without kernels.
std::optional<CudaTarget> cuda_target_for(int compute_capability);

/// Shared memory that a block of a target's kernels may have (CUDA programming guide, technical
/// specifications by compute capability).
int cuda_block_memory_bytes(CudaTarget target);

}  // namespace viaduct
