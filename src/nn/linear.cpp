#include "nn/linear.h"

#include "nn/overlapped_gemm.h"
#include "nn/product.h"
#include "nn/tensor_exchange.h"
#include "nn/weight_gradient.h"
#include "ops/bias.h"

namespace viaduct {
namespace {

/// The rows of the table of overlaps of a layer; weight gradients of row-parallel layers exchange
/// nothing.
struct Rows {
  OverlapGemm fprop, dgrad;
  std::optional<OverlapGemm> wgrad;
};

Rows rows_of(LinearRole role) {
  switch (role) {
    case LinearRole::qkv:
      return {OverlapGemm::qkv_fprop, OverlapGemm::qkv_dgrad, OverlapGemm::qkv_wgrad};
    case LinearRole::proj:
      return {OverlapGemm::proj_fprop, OverlapGemm::proj_dgrad, std::nullopt};
    case LinearRole::fc1:
      return {OverlapGemm::fc1_fprop, OverlapGemm::fc1_dgrad, OverlapGemm::fc1_wgrad};
    case LinearRole::fc2:
      break;
  }
  return {OverlapGemm::fc2_fprop, OverlapGemm::fc2_dgrad, std::nullopt};
}

/// Whether the saved input is gathered beside the GEMM of the input gradient.
bool gathers_beside_input_gradient(const RankContext& context, LinearRole role) {
  return context.settings.overlap[rows_of(role).dgrad].method == OverlapMethod::bulk;
}

/// Whether the weight gradient is made beside the reduction of the input gradient.
bool makes_weight_gradient_early(const RankContext& context, LinearRole role) {
  const auto row = rows_of(role).wgrad;
  return row && context.settings.overlap[*row].method == OverlapMethod::bulk;
}

}  // namespace

Linear::Linear(LinearRole role, std::shared_ptr<const Parameter> weight,
               std::shared_ptr<const Parameter> bias)
    : role_(role), weight_(std::move(weight)), bias_(std::move(bias)) {}

Tensor Linear::forward(RankContext& context, const Tensor& x, SavedStore& saved, MemoryTag tag,
                       const GemmEpilogue& epilogue, std::optional<DType> format) const {
  keep_operand(context, saved, this, "x", x, kept_forms(context).b);
  const GemmOverlap& row = context.settings.overlap[rows_of(role_).fprop];
  const AcquiredWeight weight(context.weights, *weight_, WeightUse::forward,
                              weight_run(context, row, epilogue, weight_->shape[0]));
  StreamProduct product{GemmForm::forward, weight.operand(), Tensor(), epilogue, format};
  std::optional<AcquiredWeight> bias;
  if (bias_) bias.emplace(context.weights, *bias_, WeightUse::elementwise);
  const bool in_gemm = bias_ && adds_bias_in_gemm(context);
  // The outputs of a row-parallel layer are summed over the ranks: one of them has the bias.
  if (in_gemm && (columns() || context.groups.tp().rank() == 0)) product.bias = bias->tensor();
  const Tensor y = columns() ? gather_and_multiply(context, row, product, x, tag)
                             : multiply_and_reduce(context, row, product, x, tag);
  if (bias_ && !in_gemm) bias_add(context.ops, {y, bias->tensor(), y});
  return y;
}

bool Linear::adds_bias_in_gemm(const RankContext& context) const {
  switch (role_) {
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
  return context.settings.fusions.gemm_epilogue && adds_bias_in_gemm(context) &&
         (columns() || !sums_products(context));
}

Tensor Linear::backward_input(RankContext& context, const Tensor& dy, SavedStore& saved,
                              const GemmEpilogue& epilogue) const {
  if (bias_) {
    const auto destination = context.gradients->gradient(*bias_);
    column_sum(context.ops, {dy, destination.tensor, destination.mode});
    context.gradients->done(*bias_);
  }
  return columns() ? column_input_gradient(context, dy, saved)
                   : input_gradient(context, dy, saved, epilogue);
}

Tensor Linear::input_gradient(RankContext& context, const Tensor& dy, SavedStore& saved,
                              const GemmEpilogue& epilogue) const {
  const AcquiredWeight weight(context.weights, *weight_, WeightUse::data_gradient);
  const StreamProduct product{GemmForm::data_gradient, weight.operand(), Tensor(), epilogue};
  Tensor all;
  const Tensor dx = gather_and_multiply(context, context.settings.overlap[rows_of(role_).dgrad],
                                        product, dy, MemoryTag::activations, &all);
  keep_operand(context, saved, this, "dy", all, kept_forms(context).a);
  return dx;
}

Tensor Linear::column_input_gradient(RankContext& context, const Tensor& dy,
                                     SavedStore& saved) const {
  const GemmOverlap& row = context.settings.overlap[rows_of(role_).dgrad];
  const AcquiredWeight weight(context.weights, *weight_, WeightUse::data_gradient,
                              weight_run(context, row, {}, weight_->shape[1]));
  const StreamProduct product{GemmForm::data_gradient, weight.operand()};
  const OperandForm dy_form = kept_forms(context).a;
  keep_operand(context, saved, this, "dy", dy, dy_form);
  if (!gathers_beside_input_gradient(context, role_) &&
      !makes_weight_gradient_early(context, role_)) {
    return multiply_and_reduce(context, row, product, dy, MemoryTag::activations);
  }
  PendingTensor x = start_gather_stream(context, saved.take(this, "x"));
  if (!gathers_beside_input_gradient(context, role_)) x = PendingTensor(x.wait());
  const Tensor partial = multiply(context, product, dy, MemoryTag::activations);
  saved.keep(this, "x", x.wait());
  PendingTensor dx = start_reduce_to_stream(context, partial, MemoryTag::activations);
  if (makes_weight_gradient_early(context, role_))
    weight_gradient(context, saved.take(this, "x"),
                    take_operand(context, saved, this, "dy", dy_form));
  return dx.wait();
}

GemmForms Linear::kept_forms(const RankContext& context) const {
  GemmForms forms = waiting_forms(context, weight_->shape[0], weight_->shape[1]);
  // What is gathered first is kept as the rows that ranks exchange.
  if (columns() && (stream_is_cut(context) || gathers_beside_input_gradient(context, role_) ||
                    makes_weight_gradient_early(context, role_)))
    forms.b = {};
  return forms;
}

void Linear::backward_weight(RankContext& context, SavedStore& saved) const {
  if (makes_weight_gradient_early(context, role_)) return;
  const GemmForms forms = kept_forms(context);
  Operand x = take_operand(context, saved, this, "x", forms.b);
  const bool gathered = !columns() || gathers_beside_input_gradient(context, role_);
  if (!gathered && stream_is_cut(context)) x = gather_stream(context, x.tensor());
  weight_gradient(context, x, take_operand(context, saved, this, "dy", forms.a));
}

void Linear::weight_gradient(RankContext& context, const Operand& x, const Operand& dy) const {
  make_weight_gradient(context, dy, x, context.gradients->gradient(*weight_));
  context.gradients->done(*weight_);
}

void Linear::append_parameters(std::vector<const Parameter*>& list) const {
  list.push_back(weight_.get());
  if (bias_) list.push_back(bias_.get());
}

}  // namespace viaduct
