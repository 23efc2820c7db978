#pragma once
// Quantized operands on the cpu: made from matrices, and widened to the BF16 matrices that tiles
// multiply. Sizes of tasks depend only on the shape.

#include "base/thread_pool.h"
#include "ops/convert_operand.h"
#include "ops/cpu/gemm/quantize_kernels.h"

namespace viaduct::cpu {

/// Whether `quantize` makes the form and `widen` reads it: row-major codes of e4m3 or e5m2, scales
/// of the whole matrix (f32), or of groups of one column, or of a multiple of 16 columns that
/// divides `kQuantizeColumns` (f32, e8m0).
bool is_quantized(const OperandForm& form);

/// args.out, in such a form, of a matrix of f32, bf16 or f16.
void quantize(ThreadPool& pool, const ConvertOperandArgs& args, const QuantizeKernels& kernels);

/// A part of it, in a form with scales of groups: the rows [row, row + rows), and `columns` columns
/// from a boundary of groups on.
void quantize_part(const ConvertOperandArgs& args, const QuantizeKernels& kernels, int64_t row,
                   int64_t rows, int64_t column, int64_t columns);

/// `to` bf16 [R, C] = the operand's elements, times the scales of their groups; a scale of the
/// whole matrix is left to `whole_scale`. Exact where the result is a normal BF16 number.
void widen(ThreadPool& pool, const Operand& operand, const Tensor& to,
           const QuantizeKernels& kernels);

/// The scale of the whole matrix, which `widen` and `widen_nvfp4` leave out; else 1.
float whole_scale(const Operand& operand);

}  // namespace viaduct::cpu
