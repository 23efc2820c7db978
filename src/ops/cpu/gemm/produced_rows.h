#pragma once
// Other forms of a matrix, made of parts that were just written and are still in the cache
// (ops/produced_forms.h), by the kernels that `largest_magnitude` and `convert_operand` run.

#include "ops/cpu/gemm/nvfp4_kernels.h"
#include "ops/cpu/gemm/quantize_kernels.h"
#include "ops/produced_forms.h"

namespace viaduct::cpu {

struct FormKernels {
  const QuantizeKernels& quantize;
  const Nvfp4Kernels& nvfp4;
};
FormKernels form_kernels(CpuIsa isa);

/// The part of a request that producers on the cpu make: magnitudes, and row-wise codes of FP8 with
/// scales of groups. Products have blocks of 32 columns: wider groups are not theirs.
FormsRequest produced_forms(const FormsRequest& request, const Traits& traits);

/// Rows of a matrix that are made together must begin at a multiple of this, and end at one or at
/// the end of the matrix.
int64_t rows_together(const ProducedForms& forms);

/// Before the first part.
void begin_forms(const ProducedForms& forms);
/// Makes the part [row, row + rows) × [column, column + columns) of `matrix`; columns begin at a
/// boundary of groups. May run on several threads at once.
void make_forms(const ProducedForms& forms, const Tensor& matrix, const FormKernels& kernels,
                int64_t row, int64_t rows, int64_t column, int64_t columns);
/// After the last part.
void end_forms(const ProducedForms& forms);

}  // namespace viaduct::cpu
