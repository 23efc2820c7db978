#pragma once
// Which products of experts run on the warpgroups of sm_90a (kernels/grouped_warpgroups.h): by
// shapes, strides and forms alone, so that a dry run has the kernels of a run.

#include "hardware/cuda_target.h"
#include "ops/cuda/grouped_operands.h"

namespace viaduct::cuda {

/// The kernel of tensors.
inline constexpr std::string_view kGroupedWarpgroups = "grouped_warpgroups";

/// Of tensors of 16 bits: all rows are whole runs of 16 bytes, aligned to these.
bool uses_warpgroups(const GroupedGemmArgs& args, CudaTarget target);

/// Of quantized operands: FP8 with one scale for each matrix or in blocks of 128, b's elements in
/// E4M3, and rows of codes and of c whole aligned runs of 16 bytes.
bool uses_warpgroups(const GroupedGemmArgs& args, const GroupedOperands& operands,
                     CudaTarget target);

}  // namespace viaduct::cuda
