#include "nn/linear.h"

#include <utility>

#include "base/error.h"
#include "nn/linear_log.h"
#include "nn/overlapped_gemm.h"
#include "nn/product.h"
#include "nn/tensor_exchange.h"
#include "nn/weight_gradient.h"
#include "ops/bias.h"

namespace viaduct {
Linear::Linear(LinearRole role, std::shared_ptr<const Parameter> weight,
               std::shared_ptr<const Parameter> bias, LowRankTerms terms)
    : weight_(std::move(weight)),
      bias_(std::move(bias)),
      terms_(std::move(terms)),
      overlap_(role, weight_, terms_.any()),
      operands_(weight_, overlap_.columns()) {}

int64_t Linear::run_of_weight(const RankContext& context, const GemmOverlap& row,
                              const GemmEpilogue& epilogue, int64_t columns) const {
  return weight_run(context, terms_.any() ? GemmOverlap() : row, epilogue, columns);
}

Tensor Linear::forward(RankContext& context, LinearInput input, SavedStore& saved, MemoryTag tag,
                       const GemmEpilogue& epilogue, std::optional<DType> format) const {
  const Tensor amax = input_amax(context, input, saved);
  const Operand in = keep_input(context, input, amax, saved);
  const GemmOverlap& row = overlap_.forward(context);
  const AcquiredWeight weight(context.weights, *weight_, WeightUse::forward,
                              run_of_weight(context, row, epilogue, weight_->shape[0]));
  log_weight(context, *weight_, weight.operand());
  StreamProduct product{GemmForm::forward,
                        weight.operand(),
                        Tensor(),
                        epilogue,
                        format,
                        operands_.how(context),
                        amax};
  std::optional<AcquiredWeight> bias;
  if (bias_) bias.emplace(context.weights, *bias_, WeightUse::elementwise);
  // Magnitudes are factors of the product alone.
  const bool in_gemm = bias_ && !terms_.have_magnitudes() && adds_bias_in_gemm(context);
  // The outputs of a row-parallel layer are summed over the ranks: one of them has the bias.
  if (in_gemm && (columns() || context.groups.tp().rank() == 0)) product.bias = bias->tensor();
  // y [T, N] = x [T, K] · Wᵀ (+ bias [N]), W [N, K]; N or K are those of this rank
  const Tensor y =
      terms_.have_magnitudes() ? magnitude_forward(context, row, product, {in, input.x}, saved, tag)
      : terms_.any()           ? adapted_forward(context, row, product, {in, input.x}, saved, tag)
      : !columns()             ? multiply_and_reduce(context, row, product, in, tag)
      : stream_is_cut(context) ? gather_and_multiply(context, row, product, input.x.tensor(), tag)
                               : multiply(context, product, in, tag);
  if (bias_ && !in_gemm) bias_add(context.ops, {y, bias->tensor(), y});
  return y;
}

Tensor Linear::adapted_forward(RankContext& context, const GemmOverlap& row,
                               const StreamProduct& product, const AdaptedInput& in,
                               SavedStore& saved, MemoryTag tag) const {
  if (adds_terms_in_product(context)) return joined_forward(context, product, in, saved, tag);
  Tensor x = in.of_terms.tensor();
  Tensor y = columns() && stream_is_cut(context)
                 ? gather_and_multiply(context, row, product, in.of_terms.tensor(), tag, &x)
                 : multiply(context, product, in.of_product, tag);
  terms_.add_to(context, terms_.reduce(context, x, saved), y);
  return columns() ? y : reduce_to_stream(context, y, tag);
}

bool Linear::adds_terms_in_product(const RankContext& context) const {
  return terms_.join_product(context) && !operands_.how(context).any() &&
         (!columns() || overlap_.multiplies_all_rows(context));
}

bool Linear::adds_terms_in_gradient(const RankContext& context) const {
  return terms_.join_gradient(context) && !operands_.how(context).any() &&
         (columns() || overlap_.differentiates_all_rows(context));
}

Tensor Linear::joined_forward(RankContext& context, StreamProduct product, const AdaptedInput& in,
                              SavedStore& saved, MemoryTag tag) const {
  const bool gathers = columns() && stream_is_cut(context);
  const Tensor x = gathers ? gather_stream(context, in.of_terms.tensor()) : in.of_terms.tensor();
  const GemmEpilogue& epilogue = product.epilogue;
  ProductTerms joined = terms_.in_product(
      context, x, epilogue.activated && epilogue.gated ? product.columns() / 2 : 0, saved);
  product.terms = std::move(joined.terms);
  product.reduction = joined.reduction;
  const Tensor y = multiply(context, std::move(product), gathers ? Operand(x) : in.of_product, tag);
  return columns() ? y : reduce_to_stream(context, y, tag);
}

Tensor Linear::joined_gradient(RankContext& context, StreamProduct product, const Operand& in,
                               const Tensor& dy, SavedStore& saved) const {
  ProductTerms joined = terms_.in_gradient(context, terms_.reduce_gradient(context, dy, saved));
  product.terms = std::move(joined.terms);
  return multiply(context, std::move(product), in, MemoryTag::activations);
}

bool Linear::adds_bias_in_gemm(const RankContext& context) const {
  switch (overlap_.role()) {
    case LinearRole::qkv:
      return true;
    case LinearRole::fc1:
      return context.settings.fusions.bias_activation;
    case LinearRole::proj:
    case LinearRole::fc2:
      break;
  }
  return context.settings.fusions.bias_dropout;
}

bool Linear::takes_epilogue(const RankContext& context) const {
  return (!terms_.any() || adds_terms_in_product(context)) &&
         context.settings.fusions.gemm_epilogue && adds_bias_in_gemm(context) &&
         (columns() || !sums_products(context));
}

Tensor Linear::backward_input(RankContext& context, const Tensor& dy, SavedStore& saved,
                              const GemmEpilogue& epilogue) const {
  if (bias_ && bias_->trained) {
    const auto destination = context.gradients->gradient(*bias_);
    column_sum(context.ops, {dy, destination.tensor, destination.mode});
    context.gradients->done(*bias_);
  }
  if (terms_.have_magnitudes()) return magnitude_input_gradient(context, dy, saved);
  return columns() ? column_input_gradient(context, dy, saved)
                   : input_gradient(context, dy, saved, epilogue);
}

void Linear::keep_output_gradient(RankContext& context, const Tensor& dy, SavedStore& saved) const {
  // A trained weight's gradient may be part of the exchange of dx, and a row-parallel layer gathers
  // dy for both.
  if (weight_->trained || !columns()) {
    backward_input(context, dy, saved);
    return;
  }
  if (!terms_.any()) return;
  const Tensor dz = terms_.have_magnitudes() ? terms_.magnitude_gradients(context, dy, saved) : dy;
  keep_gradient(context, dz, Tensor(), {}, saved);
  terms_.reduce_gradient(context, dz, saved);
}

Tensor Linear::input_gradient(RankContext& context, const Tensor& dy, SavedStore& saved,
                              const GemmEpilogue& epilogue) const {
  const AcquiredWeight weight(context.weights, *weight_, WeightUse::data_gradient);
  const Tensor amax = operands_.amax(context, LayerOperand::output_gradient, dy, saved);
  const StreamProduct product{GemmForm::data_gradient,
                              weight.operand(),
                              Tensor(),
                              epilogue,
                              {},
                              operands_.how(context),
                              amax,
                              operands_.rounding(context)};
  if (!stream_is_cut(context)) {
    log_operand(context, GemmForm::data_gradient, dy, amax, product.rounding);
    const Operand kept = keep_gradient(context, dy, amax, product.rounding, saved);
    const Operand in =
        kept_or_matrix(context, GemmForm::data_gradient, product.quantization, kept, dy);
    if (adds_terms_in_gradient(context)) return joined_gradient(context, product, in, dy, saved);
    const Tensor dx = multiply(context, product, in, MemoryTag::activations);
    if (terms_.any()) terms_.add_input_gradient(context, dy, dx, saved);
    return dx;
  }
  if (adds_terms_in_gradient(context)) {
    const Tensor rows = gather_stream(context, dy);
    log_operand(context, GemmForm::data_gradient, rows, amax, product.rounding);
    keep_gradient(context, rows, amax, product.rounding, saved);
    return joined_gradient(context, product, rows, rows, saved);
  }
  Tensor all;
  const Tensor dx = gather_and_multiply(context, overlap_.input_gradient(context), product, dy,
                                        MemoryTag::activations, &all);
  log_operand(context, GemmForm::data_gradient, all, amax, product.rounding);
  keep_gradient(context, all, amax, product.rounding, saved);
  if (terms_.any()) terms_.add_input_gradient(context, all, dx, saved);
  return dx;
}

Tensor Linear::column_input_gradient(RankContext& context, const Tensor& dy,
                                     SavedStore& saved) const {
  const GemmOverlap& row = overlap_.input_gradient(context);
  const AcquiredWeight weight(context.weights, *weight_, WeightUse::data_gradient,
                              run_of_weight(context, row, {}, weight_->shape[1]));
  const Tensor amax = operands_.amax(context, LayerOperand::output_gradient, dy, saved);
  StreamProduct product{
      GemmForm::data_gradient,    weight.operand(), Tensor(), {}, {}, operands_.how(context), amax,
      operands_.rounding(context)};
  const OperandForm dy_form = kept_forms(context).a;
  log_operand(context, GemmForm::data_gradient, dy, amax, product.rounding);
  const Operand kept = keep_gradient(context, dy, amax, product.rounding, saved);
  const Operand in =
      kept_or_matrix(context, GemmForm::data_gradient, product.quantization, kept, dy);
  if (terms_.any()) {
    Tensor partial;
    if (adds_terms_in_gradient(context)) {
      partial = joined_gradient(context, product, in, dy, saved);
    } else {
      partial = multiply(context, product, in, MemoryTag::activations);
      terms_.add_input_gradient(context, dy, partial, saved);
    }
    return reduce_to_stream(context, partial, MemoryTag::activations);
  }
  if (!has_weight_half() || (!overlap_.gathers_beside_input_gradient(context) &&
                             !overlap_.makes_weight_gradient_early(context))) {
    return multiply_and_reduce(context, row, product, in, MemoryTag::activations);
  }
  // A row that is not bulk has no exchange here: its settings are those of another one.
  const GemmOverlap gather = overlap_.gathers_beside_input_gradient(context) ? row : GemmOverlap();
  product.spare_multiprocessors = gather.spare_multiprocessors;
  PendingTensor x = start_gather_stream(context, saved.take(this, "x"), gather.connection);
  if (!overlap_.gathers_beside_input_gradient(context)) x = PendingTensor(x.wait());
  const Tensor partial = multiply(context, product, in, MemoryTag::activations);
  saved.keep(this, "x", x.wait());
  PendingTensor dx = start_reduce_to_stream(context, partial, MemoryTag::activations,
                                            overlap_.weight_gradient(context).connection);
  if (overlap_.makes_weight_gradient_early(context))
    weight_gradient(context, saved.take(this, "x"),
                    take_operand(context, saved, this, "dy", dy_form), take_amax(context, saved));
  return dx.wait();
}

Operand Linear::keep_gradient(RankContext& context, const Tensor& dy, const Tensor& amax,
                              const StochasticRounding& rounding, SavedStore& saved) const {
  if (!has_weight_half()) return dy;
  return keep_operand(context, saved, this, "dy", dy, kept_forms(context).a, amax, rounding);
}

GemmForms Linear::kept_forms(const RankContext& context) const {
  if (terms_.any() || !weight_->trained) return {};  // terms read tensors
  GemmForms forms =
      waiting_forms(context, weight_->shape[0], weight_->shape[1], operands_.how(context));
  // What is gathered first is kept as the rows that ranks exchange.
  if (columns() && (stream_is_cut(context) || overlap_.gathers_beside_input_gradient(context) ||
                    overlap_.makes_weight_gradient_early(context)))
    forms.b = {};
  return forms;
}

void Linear::backward_weight(RankContext& context, SavedStore& saved) const {
  if (!has_weight_half()) return;
  if (overlap_.makes_weight_gradient_early(context)) return;
  const GemmForms forms = kept_forms(context);
  Operand x = take_operand(context, saved, this, "x", forms.b);
  const bool gathered = !columns() || overlap_.gathers_beside_input_gradient(context);
  if (!gathered && stream_is_cut(context)) x = gather_stream(context, x.tensor());
  const Operand dy = take_operand(context, saved, this, "dy", forms.a);
  if (terms_.any()) terms_.weight_gradients(context, x.tensor(), dy.tensor(), saved);
  if (weight_->trained) weight_gradient(context, x, dy, take_amax(context, saved));
}

bool Linear::keeps_amax(const RankContext& context) const {
  const Quantization how = operands_.how(context);
  return weight_->trained && context.delayed == nullptr && how.scales_matrices() &&
         how.weight_gradient && kept_forms(context).b.plain();
}

Tensor Linear::take_amax(const RankContext& context, SavedStore& saved) const {
  if (keeps_amax(context)) return saved.take(this, "x amax");
  const bool delayed =
      context.delayed != nullptr && operands_.how(context).scaling == Scaling::tensor;
  return delayed ? context.delayed->chosen(*weight_, LayerOperand::input) : Tensor();
}

void Linear::log_operand(RankContext& context, GemmForm form, const Tensor& matrix,
                         const Tensor& amax, const StochasticRounding& rounding) const {
  viaduct::log_operand(context, *weight_, operands_, form, matrix, amax, rounding);
}

void Linear::weight_gradient(RankContext& context, const Operand& x, const Operand& dy,
                             const Tensor& x_amax) const {
  make_weight_gradient(context, dy, x, context.gradients->product_gradient(*weight_),
                       operands_.how(context), {{}, x_amax},
                       overlap_.weight_gradient(context).spare_multiprocessors);
  context.gradients->done(*weight_);
}

void Linear::append_parameters(std::vector<const Parameter*>& list) const {
  list.push_back(weight_.get());
  if (bias_) list.push_back(bias_.get());
  terms_.append_parameters(list);
}

}  // namespace viaduct
