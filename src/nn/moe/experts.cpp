#include "nn/moe/experts.h"

#include "nn/linear_log.h"
#include "nn/moe/expert_scales.h"
#include "nn/quantization_log.h"
#include "nn/weight_gradient.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/expert_bias.h"
#include "ops/expert_rows.h"

namespace viaduct {
namespace {

void keep_if_any(SavedStore& saved, const void* owner, std::string_view name,
                 const Tensor& tensor) {
  if (tensor) saved.keep(owner, name, tensor);
}

Tensor take_if(bool there, SavedStore& saved, const void* owner, std::string_view name) {
  return there ? saved.take(owner, name) : Tensor();
}

}  // namespace

Edge ExpertsSegment::inputs(const RankContext& context, const Batch& batch) const {
  const MoeEdges edges(context, batch, moe_, place_, hidden());
  Edge edge{edges.rows(), edges.row_factors(), edges.offsets()};
  if (moe_.row_indices) edge.push_back(edges.row_index());
  return edge;
}

void ExpertsSegment::product(RankContext& context, GemmForm form, const Parameter& weight,
                             const Tensor& a, const Tensor& offsets, const Tensor& out,
                             const Tensor& amax, const SavedStore& saved,
                             const Tensor& first_token) const {
  const bool forward = form == GemmForm::forward;
  const AcquiredWeight held(context.weights, weight,
                            forward ? WeightUse::forward : WeightUse::data_gradient);
  GroupedGemmArgs args{form, a, held.operand(), out, offsets};
  args.quantization = quantization_of(context, weight);
  args.a_amax = amax_for(args.quantization, form, amax);
  if (!forward) args.rounding = expert_rounding(context, weight, first_token);
  // A backward runs once; a recomputed forward is not measured again.
  if (forward) {
    saved.once([&] { log_operands(context, weight, args); });
  } else {
    log_operands(context, weight, args);
  }
  grouped_gemm(context.ops, args);
}

void ExpertsSegment::log_operands(RankContext& context, const Parameter& weight,
                                  const GroupedGemmArgs& args) const {
  QuantizationLog* log = context.quantization_log;
  if (log == nullptr) return;
  const std::string layer = layer_path(weight);
  const int64_t first = weight.experts.first;
  log->add_rows(context.ops, layer + (args.form == GemmForm::forward ? " x" : " dy"), args, first);
  // Codes are all that is stored of such a weight: there is no matrix to compare with.
  if (context.settings.precision.stores_codes || log->has(layer + " w")) return;
  const AcquiredWeight held(context.weights, weight, WeightUse::elementwise);
  log->add_weights(context.ops, layer + " w", held.tensor(), args.b, first);
}

Tensor ExpertsSegment::amax_of(RankContext& context, const Parameter& weight, LayerOperand operand,
                               const Tensor& rows, const Tensor& offsets,
                               const SavedStore& saved) const {
  return expert_amax(context, moe_, place_, weight, operand, rows, offsets, saved);
}

Tensor ExpertsSegment::forward_amax(RankContext& context, const Parameter& weight,
                                    const Tensor& rows, const Tensor& offsets,
                                    SavedStore& saved) const {
  const Tensor amax = amax_of(context, weight, LayerOperand::input, rows, offsets, saved);
  if (weight.trained && quantization_of(context, weight).weight_gradient)
    keep_if_any(saved, &weight, "x amax", amax);
  return amax;
}

void ExpertsSegment::add_bias(RankContext& context, const Parameter* bias, const Tensor& x,
                              const Tensor& offsets) const {
  if (bias == nullptr) return;
  const AcquiredWeight held(context.weights, *bias, WeightUse::elementwise);
  const Shape by_expert{offsets.dim(0) - 1, x.dim(1)};
  expert_bias(context.ops, {x, held.tensor().view(by_expert), offsets});
}

void ExpertsSegment::add_bias_gradient(RankContext& context, const Parameter* bias,
                                       const Tensor& dy, const Tensor& offsets) const {
  if (bias == nullptr || !bias->trained) return;
  const Shape by_expert{offsets.dim(0) - 1, dy.dim(1)};
  expert_bias_backward(context.ops,
                       {dy, context.gradients->gradient(*bias).tensor.view(by_expert), offsets});
  context.gradients->done(*bias);
}

Tensor ExpertsSegment::raise(RankContext& context, const Tensor& rows, const ExpertTerms::Rows& at,
                             const Tensor& amax, SavedStore& saved) const {
  const int64_t count = rows.dim(0);
  const Tensor& offsets = at.offsets;
  const Tensor raised =
      context.activation({count, features() * (parts_.gated ? 2 : 1)}, saved.tag());
  product(context, GemmForm::forward, *parts_.up, rows, offsets, raised, amax, saved);
  const ExpertTerms& terms = parts_.up_terms;
  if (terms.any()) terms.add_to(context, terms.reduce(context, rows, at, saved), at, raised);
  add_bias(context, parts_.up_bias.get(), raised, offsets);
  return activate_unit(context, raised, saved);
}

Tensor ExpertsSegment::activate(RankContext& context, const Tensor& raised,
                                SavedStore& saved) const {
  const Tensor activated = context.activation({raised.dim(0), features()}, saved.tag());
  activation_forward(context.ops,
                     {parts_.activation, parts_.gated, raised, activated, parts_.shape});
  return activated;
}

Tensor ExpertsSegment::activate_unit(RankContext& context, const Tensor& raised,
                                     SavedStore& saved) const {
  const auto again = [](const ExpertsSegment& self, RankContext& rank, const Batch&,
                        SavedStore& store, const std::vector<Tensor>& inputs) {
    return std::vector{self.activate(rank, inputs[0], store)};
  };
  ReplayableUnit scope(saved, unit::moe_act, {raised}, {*this, again});
  const Tensor activated = activate(context, raised, saved);
  saved.keep(this, "raised", raised);
  scope.made({activated});
  return activated;
}

Tensor ExpertsSegment::raise_unit(RankContext& context, const Tensor& rows,
                                  const ExpertTerms::Rows& at, const Tensor& amax,
                                  SavedStore& saved) const {
  const auto again = [](const ExpertsSegment& self, RankContext& rank, const Batch&,
                        SavedStore& store, const std::vector<Tensor>& inputs) {
    const size_t first = self.moe_.row_indices ? 3 : 2;
    const Tensor scales = inputs.size() > first ? inputs[first] : Tensor();
    const Tensor index = first > 2 ? inputs[2].view({inputs[2].dim(0)}) : Tensor();
    return std::vector{self.raise(rank, inputs[0], {inputs[1], index}, scales, store)};
  };
  std::vector<Tensor> inputs{rows, at.offsets};
  if (at.index) inputs.push_back(at.index);
  if (amax) inputs.push_back(amax);
  ReplayableUnit scope(saved, unit::mlp, std::move(inputs), {*this, again});
  const Tensor activated = raise(context, rows, at, amax, saved);
  scope.made({activated});
  return activated;
}

TensorSet ExpertsSegment::forward(RankContext& context, const Batch&, const TensorSet& in,
                                  SavedStore& saved) {
  const Tensor rows = in.get(moe_edge::rows), offsets = in.get(moe_edge::offsets);
  ExpertTerms::Rows at{offsets, {}};
  if (moe_.row_indices) at.index = in.get(moe_edge::row_index).view({rows.dim(0)});
  const Tensor activated =
      raise_unit(context, rows, at, forward_amax(context, *parts_.up, rows, offsets, saved), saved);
  saved.keep(this, "offsets", offsets);
  keep_if_any(saved, this, "row index", at.index);
  if (up_has_weight_half()) {
    const UnitScope scope(saved, unit::expert_fc1);
    saved.keep(this, "rows", rows);
  }
  {
    const UnitScope scope(saved, unit::moe_act);
    saved.keep(this, "activated", activated);
  }
  const Tensor amax = forward_amax(context, *parts_.down, activated, offsets, saved);
  const ExpertTerms& terms = parts_.down_terms;
  Tensor reduced;
  if (terms.any()) reduced = terms.reduce(context, activated, at, saved);
  if (!saved.output_is_read()) return {};
  const Tensor results = context.activation(rows.shape(), MemoryTag::activations);  // [A, H]
  product(context, GemmForm::forward, *parts_.down, activated, offsets, results, amax, saved);
  if (terms.any()) terms.add_to(context, reduced, at, results);
  add_bias(context, parts_.down_bias.get(), results, offsets);
  return TensorSet(moe_edge::results, results);
}

void ExpertsSegment::input_gradient(RankContext& context, const Parameter& weight, const Tensor& dy,
                                    const Tensor& offsets, const Tensor& first_token,
                                    const Tensor& out, SavedStore& saved) const {
  const Tensor amax = amax_of(context, weight, LayerOperand::output_gradient, dy, offsets, saved);
  if (weight.trained && quantization_of(context, weight).weight_gradient)
    keep_if_any(saved, &weight, "dy amax", amax);
  product(context, GemmForm::data_gradient, weight, dy, offsets, out, amax, saved, first_token);
}

TensorSet ExpertsSegment::backward_input(RankContext& context, const Batch& batch,
                                         const TensorSet& d_out, SavedStore& saved) {
  const Tensor d_results = d_out.get(moe_edge::results);  // [A, H]
  const Tensor offsets = saved.get(this, "offsets");
  const ExpertTerms::Rows at{offsets, moe_.row_indices ? saved.get(this, "row index") : Tensor()};
  const Tensor activated =
      down_has_weight_half() ? saved.get(this, "activated") : saved.take(this, "activated");
  const Tensor raised = saved.take(this, "raised");  // overwritten by its gradient
  const Tensor d_activated =
      context.activation({d_results.dim(0), features()}, MemoryTag::activations);
  add_bias_gradient(context, parts_.down_bias.get(), d_results, offsets);
  const bool quantized = parts_.up->quantized || parts_.down->quantized;
  const Tensor first = quantized ? first_token(context, place_, batch) : Tensor();
  input_gradient(context, *parts_.down, d_results, offsets, first, d_activated, saved);
  if (parts_.down_terms.any())
    parts_.down_terms.add_input_gradient(context, d_results, at, d_activated, saved);
  const Tensor d_factors = factor_gradient(context, d_activated, activated, d_results, offsets);
  activation_backward(context.ops,
                      {parts_.activation, parts_.gated, d_activated, raised, raised, parts_.shape});
  add_bias_gradient(context, parts_.up_bias.get(), raised, offsets);
  const Tensor d_rows = context.activation(d_results.shape(), MemoryTag::activations);
  input_gradient(context, *parts_.up, raised, offsets, first, d_rows, saved);
  if (parts_.up_terms.any()) parts_.up_terms.add_input_gradient(context, raised, at, d_rows, saved);
  keep_if_any(saved, this, "first_token", first);
  if (up_has_weight_half()) saved.keep(this, "d_raised", raised);
  if (down_has_weight_half()) saved.keep(this, "d_results", d_results);
  TensorSet d_in(moe_edge::rows, d_rows);
  d_in.set(moe_edge::row_factors, d_factors);
  return d_in;
}

Tensor ExpertsSegment::factor_gradient(RankContext& context, const Tensor& d_activated,
                                       const Tensor& activated, const Tensor& d_results,
                                       const Tensor& offsets) const {
  const Tensor d_factors = context.statistic({d_results.dim(0), 1}, MemoryTag::activations);
  row_dots(context.ops, {d_activated, activated, d_factors});
  if (parts_.down_bias == nullptr) return d_factors;
  const AcquiredWeight held(context.weights, *parts_.down_bias, WeightUse::elementwise);
  const Tensor bias = held.tensor().view({offsets.dim(0) - 1, hidden()});
  row_dots(context.ops, {d_results, bias, d_factors, offsets, WriteMode::accumulate});
  return d_factors;
}

void ExpertsSegment::weight_gradient(RankContext& context, const Parameter& weight,
                                     const Tensor& dy, const Tensor& x, const Tensor& offsets,
                                     const Tensor& first_token, SavedStore& saved) const {
  const GradientAccess::Destination destination = context.gradients->product_gradient(weight);
  GroupedGemmArgs args{GemmForm::weight_gradient, dy, x, {}, offsets};
  const Quantization how = quantization_of(context, weight);
  if (how.any() && how.weight_gradient) {
    args.quantization = how;
    const bool scaled = how.scales_matrices();
    args.a_amax = amax_for(how, args.form, take_if(scaled, saved, &weight, "dy amax"));
    args.b_amax = amax_for(how, args.form, take_if(scaled, saved, &weight, "x amax"));
    args.rounding = expert_rounding(context, weight, first_token);
  }
  make_grouped_gradient(context, std::move(args), destination);
  context.gradients->done(weight);
}

void ExpertsSegment::backward_weight(RankContext& context, const Batch&, SavedStore& saved) {
  const Tensor offsets = saved.take(this, "offsets");
  const ExpertTerms::Rows at{offsets, take_if(moe_.row_indices, saved, this, "row index")};
  const bool rounds = context.settings.precision.products.scaling == Scaling::nvfp4 &&
                      (parts_.up->quantized || parts_.down->quantized);
  const Tensor first = take_if(rounds, saved, this, "first_token");
  const auto make = [&](const Parameter& weight, const ExpertTerms& terms, std::string_view of_y,
                        std::string_view of_x) {
    if (!has_weight_half(weight, terms)) return;
    const Tensor dy = saved.take(this, of_y), x = saved.take(this, of_x);
    if (terms.any()) terms.weight_gradients(context, x, dy, at, saved);
    if (weight.trained) weight_gradient(context, weight, dy, x, offsets, first, saved);
  };
  make(*parts_.down, parts_.down_terms, "d_results", "activated");
  make(*parts_.up, parts_.up_terms, "d_raised", "rows");
}

std::vector<const Parameter*> ExpertsSegment::parameters() const {
  std::vector<const Parameter*> list{parts_.up.get(), parts_.down.get()};
  if (parts_.up_bias) list.insert(list.begin() + 1, parts_.up_bias.get());
  if (parts_.down_bias) list.push_back(parts_.down_bias.get());
  parts_.up_terms.append_parameters(list);
  parts_.down_terms.append_parameters(list);
  return list;
}

}  // namespace viaduct
