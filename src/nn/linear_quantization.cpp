#include "nn/linear_quantization.h"

#include "base/error.h"
#include "base/hash.h"
#include "nn/product.h"
#include "nn/tensor_exchange.h"

namespace viaduct {

Quantization LinearQuantization::how(const RankContext& context) const {
  return weight_->quantized ? context.settings.precision.products : Quantization();
}

OperandForm LinearQuantization::read_form(const RankContext& context, GemmForm form,
                                          int64_t rows) const {
  GemmRequest request{form, context.settings.precision.activation};
  request.m = rows, request.n = weight_->shape[0], request.k = weight_->shape[1];
  request.quantization = how(context);
  return gemm_operand_forms(context.ops.ops, request).a;
}

ProducedForms LinearQuantization::allocate_input_forms(const RankContext& context, int64_t rows,
                                                       bool of_product) const {
  const Quantization products = how(context);
  if (!products.any()) return {};
  FormsRequest request{context.settings.precision.activation, {rows, weight_->shape[1]}};
  request.product = of_product;
  request.magnitudes = context.delayed == nullptr   ? magnitudes_of(products, rows)
                       : products.scales_matrices() ? 1
                                                    : 0;
  // Rows that are gathered first are quantized together.
  const bool gathers = columns_ && stream_is_cut(context);
  const OperandForm read = read_form(context, GemmForm::forward, rows);
  if (!gathers && !has_matrix_scale(read)) request.operand = read;
  return allocate_forms(context.ops, request, MemoryTag::activations);
}

Tensor LinearQuantization::amax(RankContext& context, LayerOperand operand, const Tensor& matrix,
                                const SavedStore& saved, const Tensor& found) const {
  const Quantization products = how(context);
  if (!products.scales_matrices()) return {};
  if (context.delayed == nullptr) {
    const bool is_stream = columns_ == (operand == LayerOperand::input);
    return amax_over_ranks(context, products, matrix, is_stream && stream_is_cut(context), found);
  }
  return delayed_amax(context, *weight_, operand, matrix, saved, {}, found);
}

StochasticRounding LinearQuantization::rounding(const RankContext& context) const {
  if (how(context).scaling != Scaling::nvfp4) return {};
  VIADUCT_CHECK(ShapeError, context.token_index.defined(),
                "gradient of {}: stochastic rounding needs the tokens' indices, which are not set",
                weight_->path);
  StochasticRounding rounding{{context.settings.seed, hash64(weight_->path)}, context.token_index};
  for (const Part& part : weight_->parts) {
    // Parts are told apart by their names: ranks have different ones.
    const auto first = static_cast<uint64_t>(part.box.begin[part.transposed ? 1 : 0]);
    rounding.features.push_back({part.storage_row, (hash64(part.name) << 32) + first});
  }
  return rounding;
}

}  // namespace viaduct
