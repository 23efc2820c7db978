#include "nn/product.h"

#include <utility>

#include "base/error.h"
#include "ops/largest_magnitude.h"
#include "tensor/hadamard.h"

namespace viaduct {
namespace {

std::string scales_name(std::string_view name) {
  return std::string(name) + " scales";
}

std::string matrix_scale_name(std::string_view name) {
  return std::string(name) + " matrix scale";
}

}  // namespace

void run_product(OpContext& context, GemmArgs args, const ProductAmax& amax,
                 const StochasticRounding& rounding) {
  const GemmForms wanted = gemm_operand_forms(context.ops, gemm_request(args));
  args.a = operand_in(context, args.a, wanted.a, MemoryTag::activations, amax.a, rounding);
  args.b = operand_in(context, args.b, wanted.b, MemoryTag::activations, amax.b);
  gemm(context, args);
}

int64_t tokens_together(const Quantization& products) {
  return products.scaling == Scaling::nvfp4 && products.weight_gradient ? kRotated : 1;
}

int magnitudes_of(const Quantization& quantization, int64_t rows) {
  if (!quantization.scales_matrices()) return 0;
  // Sizes with which weights have gradients are multiples; prompts have any number of tokens.
  const int64_t together = tokens_together(quantization);
  return together > 1 && rows % together == 0 ? 2 : 1;
}

Tensor amax_over_ranks(RankContext& context, const Quantization& quantization, const Tensor& matrix,
                       bool gathered, const Tensor& found) {
  const int magnitudes = magnitudes_of(quantization, matrix.dim(0));
  if (magnitudes == 0) return {};
  Tensor amax = found;
  if (!amax) {
    amax = context.ops.allocate(DType::f32, {magnitudes}, MemoryTag::activations);
    largest_magnitude(context.ops, {matrix, amax.slice(0, 0, 1)});
    if (magnitudes == 2) largest_magnitude(context.ops, {matrix, amax.slice(0, 1, 1), true});
  }
  if (context.settings.precision.amax.source == AmaxSource::own) {
    if (gathered) context.groups.tp().all_reduce(amax, ReduceOp::max).wait();
    return amax;
  }
  for (Communicator* ranks : {&context.groups.tp(), &context.context_ranks()})
    ranks->all_reduce(amax, ReduceOp::max).wait();
  return amax;
}

Tensor delayed_amax(RankContext& context, const Parameter& parameter, LayerOperand operand,
                    const Tensor& matrix, const SavedStore& saved, const Tensor& offsets,
                    const Tensor& found) {
  const Tensor before = context.delayed->chosen(parameter, operand);
  const auto own = [&] {
    if (found) return found;
    const Tensor amax = context.ops.allocate(DType::f32, before.shape(), MemoryTag::activations);
    largest_magnitude(context.ops, {matrix, amax, false, offsets});
    return amax;
  };
  // Evaluation and recomputation do not count.
  if (context.gradients == nullptr)
    return context.delayed->chosen_for(context.ops, parameter, operand, own());
  Tensor amax = before;
  saved.once([&] { amax = context.delayed->note_amax(context.ops, parameter, operand, own()); });
  return amax;
}

GemmForms waiting_forms(const RankContext& context, int64_t n, int64_t k,
                        const Quantization& quantization) {
  GemmRequest request{GemmForm::weight_gradient, context.settings.precision.activation};
  request.n = n, request.k = k;
  request.quantization = quantization;
  GemmForms forms = gemm_operand_forms(context.ops.ops, request);
  for (OperandForm* form : {&forms.a, &forms.b})
    if (!form->shows_shape()) *form = {};
  return forms;
}

Operand keep_operand(RankContext& context, SavedStore& saved, const void* owner,
                     std::string_view name, const Tensor& matrix, const OperandForm& form,
                     const Tensor& amax, const StochasticRounding& rounding) {
  if (form.plain() || !saved.keeps()) {
    saved.keep(owner, name, matrix);
    return matrix;
  }
  VIADUCT_CHECK(ShapeError, matrix.dtype() == context.settings.precision.activation,
                "\"{}\" is kept as {}: expected the activation format {}, got {}", name,
                describe(form), dtype_name(context.settings.precision.activation),
                describe(matrix));
  const Operand operand = operand_in(context.ops, matrix, form, saved.tag(), amax, rounding);
  keep_operand(saved, owner, name, operand);
  return operand;
}

void keep_operand(SavedStore& saved, const void* owner, std::string_view name,
                  const Operand& operand) {
  saved.keep(owner, name, operand.values());
  if (operand.scales()) saved.keep(owner, scales_name(name), operand.scales());
  if (operand.matrix_scale()) saved.keep(owner, matrix_scale_name(name), operand.matrix_scale());
}

Operand kept_or_matrix(const RankContext& context, GemmForm form, const Quantization& quantization,
                       const Operand& kept, const Tensor& matrix) {
  GemmRequest request{form, matrix.dtype()};
  request.m = matrix.dim(0);
  request.quantization = quantization;
  return kept.form() == gemm_operand_forms(context.ops.ops, request).a ? kept : matrix;
}

Operand take_operand(const RankContext& context, SavedStore& saved, const void* owner,
                     std::string_view name, const OperandForm& form) {
  const Tensor values = saved.take(owner, name);
  if (form.plain()) return values;
  const Tensor scales = form.scales ? saved.take(owner, scales_name(name)) : Tensor();
  const Tensor matrix_scale = has_matrix_scale(form) && !has_one_scale(form)
                                  ? saved.take(owner, matrix_scale_name(name))
                                  : Tensor();
  return {form,
          context.settings.precision.activation,
          matrix_shape(form, values.shape()),
          values,
          scales,
          matrix_scale};
}

}  // namespace viaduct
