#include "nn/attention_codes.h"

#include "nn/product.h"
#include "ops/convert_operand.h"
#include "ops/largest_magnitude.h"

namespace viaduct {
namespace {

/// Heads [T, N, D] as a matrix; those of a fused projection are not dense over a token.
Tensor as_matrix(const Tensor& heads) {
  const int64_t tokens = heads.dim(0), count = heads.dim(1), width = heads.dim(2);
  return count == 1 || heads.stride(1) == width ? heads.view({tokens, count * width})
                                                : heads.view({tokens * count, width});
}

OperandForm form_of(DType element) {
  return {kRowMajor, Orientation::row_wise, {}, element, ScaleForm{}};
}

/// The largest magnitudes that the scales of some operands are made for, f32 [1] each. All of the
/// keys of a query have one scale: maxima are always over context ranks.
std::vector<Tensor> amaxes_of(RankContext& context, const Parameter& projection,
                              const std::vector<LayerOperand>& operands,
                              const std::vector<Tensor>& matrices, const SavedStore& saved) {
  std::vector<Tensor> amaxes;
  if (context.delayed != nullptr) {
    for (size_t i = 0; i < operands.size(); ++i)
      amaxes.push_back(delayed_amax(context, projection, operands[i], matrices[i], saved));
    return amaxes;
  }
  const Tensor all = context.ops.allocate(DType::f32, {static_cast<int64_t>(operands.size())},
                                          MemoryTag::activations);
  for (size_t i = 0; i < operands.size(); ++i) {
    amaxes.push_back(all.slice(0, static_cast<int64_t>(i), 1));
    largest_magnitude(context.ops, {matrices[i], amaxes.back()});
  }
  if (context.settings.precision.amax.source != AmaxSource::own)
    context.groups.tp().all_reduce(all, ReduceOp::max).wait();
  context.context_ranks().all_reduce(all, ReduceOp::max).wait();
  return amaxes;
}

/// Codes of `matrix`, which is `heads`; their scale goes to `scale`.
Tensor make_codes(RankContext& context, const Tensor& heads, const Tensor& matrix, DType element,
                  const Tensor& amax, const Tensor& scale, MemoryTag tag) {
  const Tensor codes = context.ops.allocate(element, heads.shape(), tag);
  const Operand out(form_of(element), matrix.dtype(), matrix.shape(), codes.view(matrix.shape()),
                    scale.view({1, 1}));
  convert_operand(context.ops, {matrix, out, amax});
  return codes;
}

}  // namespace

bool attends_in_fp8(const RankContext& context, const Parameter* projection) {
  return context.settings.precision.products.attention && projection != nullptr &&
         projection->quantized;
}

bool hands_on_fp8(const RankContext& context, const Parameter* projection) {
  return context.settings.precision.products.attended && attends_in_fp8(context, projection);
}

AttentionHeads codes_of_heads(RankContext& context, const Parameter& projection,
                              const AttentionHeads& heads, const SavedStore& saved) {
  const DType element = context.settings.precision.products.forward;
  const std::vector<Tensor> matrices{as_matrix(heads.q), as_matrix(heads.k), as_matrix(heads.v)};
  const std::vector<Tensor> amaxes =
      amaxes_of(context, projection, {LayerOperand::query, LayerOperand::key, LayerOperand::value},
                matrices, saved);
  AttentionHeads codes;
  codes.scales = context.ops.allocate(DType::f32, {3}, saved.tag());
  const auto make = [&](const Tensor& of, size_t i) {
    return make_codes(context, of, matrices[i], element, amaxes[i],
                      codes.scales.slice(0, static_cast<int64_t>(i), 1), saved.tag());
  };
  codes.q = make(heads.q, 0), codes.k = make(heads.k, 1), codes.v = make(heads.v, 2);
  return codes;
}

HeadCodes codes_of(RankContext& context, const Parameter& projection, LayerOperand operand,
                   const Tensor& heads, MemoryTag tag, const SavedStore& saved) {
  const Quantization& how = context.settings.precision.products;
  const DType element = operand == LayerOperand::attended_gradient ? how.gradient : how.forward;
  const Tensor matrix = as_matrix(heads);
  const Tensor amax = amaxes_of(context, projection, {operand}, {matrix}, saved).front();
  HeadCodes codes{{}, context.ops.allocate(DType::f32, {1}, tag)};
  codes.values = make_codes(context, heads, matrix, element, amax, codes.scale, tag);
  return codes;
}

Operand operand_of(const RankContext& context, const HeadCodes& codes) {
  const Shape matrix{codes.values.dim(0), codes.values.dim(1) * codes.values.dim(2)};
  return {form_of(codes.values.dtype()), context.settings.precision.activation, matrix,
          codes.values.view(matrix), codes.scale.view({1, 1})};
}

}  // namespace viaduct
