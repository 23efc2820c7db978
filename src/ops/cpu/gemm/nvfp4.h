#pragma once
// NVFP4 operands on the cpu: made from matrices, and widened to the BF16 matrices that tiles
// multiply. Sizes of tasks depend on the shape alone.

#include "base/thread_pool.h"
#include "ops/convert_operand.h"
#include "ops/cpu/gemm/nvfp4_kernels.h"

namespace viaduct::cpu {

/// Whether `quantize_nvfp4` makes the form and `widen_nvfp4` reads it: row-major e2m1x2 with E4M3
/// scales of 16 elements along the contracted dim or of 16 × 16; rotated only if column-wise.
bool is_nvfp4(const OperandForm& form);

/// args.out, in such a form, of a matrix of f32, bf16 or f16. `out` may have more rows than the
/// matrix: as if it had rows of zeros there.
void quantize_nvfp4(ThreadPool& pool, const ConvertOperandArgs& args, const Nvfp4Kernels& kernels);

/// `to` bf16 [R, C] = the operand's elements times the scales of their groups, exactly; the matrix
/// scale is left out.
void widen_nvfp4(ThreadPool& pool, const Operand& operand, const Tensor& to,
                 const Nvfp4Kernels& kernels);

/// The bits of the largest magnitude of the rows [row, row + rows), at most 16 and zeros up to 16,
/// rotated; NaN is above all numbers.
int32_t rotated_magnitude(const Tensor& matrix, int64_t row, int64_t rows,
                          const Nvfp4Kernels& kernels);

}  // namespace viaduct::cpu
