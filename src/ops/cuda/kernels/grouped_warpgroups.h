#pragma once
// Products of experts by warpgroups of sm_90a (ops/cuda/warpgroup_products.h says which).

#include "ops/cuda/kernels/grouped_codes.h"

namespace viaduct::cuda {

/// The products of `grouped_gemm` for operands of 16 bits whose rows, and those of c, are whole
/// aligned runs of 16 bytes. Sums in FP32, in the order of the contracted dim.
void grouped_warpgroups(const GroupedProduct& args, Stream stream);

/// The products of `grouped_codes` for codes of FP8, b's of E4M3, with one scale for each matrix or
/// scales of 128 elements of the contracted dim, whose rows, and those of c, are whole aligned runs
/// of 16 bytes. Each 128 elements of the contracted dim are summed by the
/// matrix units, which keep fewer bits than FP32, and these sums in FP32.
void grouped_code_warpgroups(const CodedProduct& args, Stream stream);

}  // namespace viaduct::cuda
