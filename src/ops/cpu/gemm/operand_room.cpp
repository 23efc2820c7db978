#include "ops/cpu/gemm/operand_room.h"

#include <memory>
#include <numeric>

#include "ops/cpu/gemm/nvfp4.h"
#include "ops/cpu/gemm/quantize.h"

namespace viaduct::cpu {

Tensor OperandRoom::tensor(DType dtype, const Shape& shape) {
  constexpr int64_t kAligned = 64;
  const int64_t bytes = shape.elements() * dtype_bytes(dtype);
  const Tensor placed{
      std::make_shared<Storage>(memory_ == nullptr ? nullptr : memory_ + used_, bytes, nullptr),
      dtype, shape};
  used_ += (bytes + kAligned - 1) / kAligned * kAligned;
  return placed;
}

Operand OperandRoom::operand(const OperandForm& form, DType dtype, const Shape& shape) {
  const Tensor values = tensor(*form.element, values_shape(form, shape));
  const Tensor scales = tensor(form.scales->dtype, scales_shape(form, shape));
  Tensor matrix_scale;
  if (has_matrix_scale(form) && !has_one_scale(form)) matrix_scale = tensor(DType::f32, {1});
  return {form, dtype, shape, values, scales, matrix_scale};
}

StochasticRounding with_tokens_of_rows(StochasticRounding rounding, const Tensor& tokens) {
  if (!rounding.defined()) return rounding;
  const int64_t first = rounding.token_index.data<int64_t>()[0];
  std::iota(tokens.data<int64_t>(), tokens.data<int64_t>() + tokens.elements(), first);
  rounding.token_index = tokens;
  return rounding;
}

void make_operand(ThreadPool& pool, const ConvertOperandArgs& args, CpuIsa isa) {
  if (is_nvfp4(args.out.form())) return quantize_nvfp4(pool, args, nvfp4_kernels(isa));
  quantize(pool, args, quantize_kernels(isa));
}

}  // namespace viaduct::cpu
