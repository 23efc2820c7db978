#include "ops/cpu/gemm/produced_rows.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>

#include "ops/cpu/gemm/few_rows.h"
#include "ops/cpu/gemm/magnitudes.h"
#include "ops/cpu/gemm/quantize.h"
#include "ops/cpu/tiles/tiles.h"
#include "tensor/hadamard.h"

namespace viaduct::cpu {
namespace {

/// The bits of an element of amax: numbers that are not negative compare as their bits do.
int32_t& bits_of(const Tensor& amax, int64_t index) {
  return static_cast<int32_t*>(amax.raw())[index];
}

/// An element of amax = the larger of itself and these bits. A maximum is the same in any order.
void raise(const Tensor& amax, int64_t index, int32_t bits) {
  const std::atomic_ref<int32_t> largest(bits_of(amax, index));
  int32_t seen = largest.load(std::memory_order_relaxed);
  while (seen < bits && !largest.compare_exchange_weak(seen, bits, std::memory_order_relaxed)) {
  }
}

bool fits_blocks_of_products(const FormsRequest& request) {
  return request.operand.scales->group.contracted <= 2 * kTileColumns &&
         request.matrix[0] > kFewRows;
}

}  // namespace

FormKernels form_kernels(CpuIsa isa) {
  return {quantize_kernels(isa), nvfp4_kernels(isa)};
}

FormsRequest produced_forms(const FormsRequest& request, const Traits&) {
  FormsRequest made = request;
  if (request.dtype == DType::f64) made.magnitudes = 0;
  const OperandForm& form = request.operand;
  const bool makes = request.dtype != DType::f64 && is_quantized(form) && !has_one_scale(form) &&
                     form.orientation == Orientation::row_wise && form.scales->group.kept == 1 &&
                     (!request.product || fits_blocks_of_products(request));
  if (!makes) made.operand = {};
  return made;
}

int64_t rows_together(const ProducedForms& forms) {
  return forms.amax && forms.amax.dim(0) == 2 ? kRotated : 1;
}

void begin_forms(const ProducedForms& forms) {
  for (int64_t i = 0; forms.amax && i < forms.amax.dim(0); ++i) bits_of(forms.amax, i) = 0;
}

void make_forms(const ProducedForms& forms, const Tensor& matrix, const FormKernels& kernels,
                int64_t row, int64_t rows, int64_t column, int64_t columns) {
  if (forms.amax) {
    const Tensor part = matrix.slice(0, row, rows).slice(1, column, columns);
    raise(forms.amax, 0, largest_bits(part, kernels.quantize));
    if (forms.amax.dim(0) == 2) raise(forms.amax, 1, largest_rotated_bits(part, kernels.nvfp4));
  }
  if (forms.operand)
    quantize_part({matrix, forms.operand}, kernels.quantize, row, rows, column, columns);
}

void end_forms(const ProducedForms& forms) {
  for (int64_t i = 0; forms.amax && i < forms.amax.dim(0); ++i) {
    const int32_t infinity = std::bit_cast<int32_t>(std::numeric_limits<float>::infinity());
    int32_t& bits = bits_of(forms.amax, i);
    bits = std::min(bits, infinity);  // NaN is above it
  }
}

}  // namespace viaduct::cpu
