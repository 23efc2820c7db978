#include "nn/moe/experts.h"

#include "ops/elementwise.h"
#include "ops/expert_bias.h"

namespace viaduct {

Edge ExpertsSegment::inputs(const RankContext& context, const Batch& batch) const {
  const MoeEdges edges(context, batch, moe_, place_, hidden());
  return {edges.rows(), edges.offsets()};
}

void ExpertsSegment::product(RankContext& context, GemmForm form, const Parameter& weight,
                             const Tensor& a, const Tensor& offsets, const Tensor& out) const {
  const AcquiredWeight held(context.weights, weight, WeightUse::elementwise);
  grouped_gemm(context.ops, {form, a, held.tensor(), out, offsets});
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
  if (bias == nullptr) return;
  const Shape by_expert{offsets.dim(0) - 1, dy.dim(1)};
  expert_bias_backward(context.ops,
                       {dy, context.gradients->gradient(*bias).tensor.view(by_expert), offsets});
  context.gradients->done(*bias);
}

Tensor ExpertsSegment::raise(RankContext& context, const Tensor& rows, const Tensor& offsets,
                             SavedStore& saved) const {
  const int64_t count = rows.dim(0);
  const Tensor raised =
      context.activation({count, features() * (parts_.gated ? 2 : 1)}, saved.tag());
  product(context, GemmForm::forward, *parts_.up, rows, offsets, raised);
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
  const auto again = [](const void* layer, RankContext& rank, const Batch&, SavedStore& store,
                        const std::vector<Tensor>& inputs) {
    return std::vector{static_cast<const ExpertsSegment*>(layer)->activate(rank, inputs[0], store)};
  };
  ReplayableUnit scope(saved, unit::moe_act, {raised}, {this, again});
  const Tensor activated = activate(context, raised, saved);
  saved.keep(this, "raised", raised);
  scope.made({activated});
  return activated;
}

Tensor ExpertsSegment::raise_unit(RankContext& context, const Tensor& rows, const Tensor& offsets,
                                  SavedStore& saved) const {
  const auto again = [](const void* layer, RankContext& rank, const Batch&, SavedStore& store,
                        const std::vector<Tensor>& inputs) {
    return std::vector{
        static_cast<const ExpertsSegment*>(layer)->raise(rank, inputs[0], inputs[1], store)};
  };
  ReplayableUnit scope(saved, unit::mlp, {rows, offsets}, {this, again});
  const Tensor activated = raise(context, rows, offsets, saved);
  scope.made({activated});
  return activated;
}

TensorSet ExpertsSegment::forward(RankContext& context, const Batch&, const TensorSet& in,
                                  SavedStore& saved) {
  const Tensor rows = in.get(moe_edge::rows), offsets = in.get(moe_edge::offsets);
  const Tensor activated = raise_unit(context, rows, offsets, saved);
  saved.keep(this, "offsets", offsets);
  {
    const UnitScope scope(saved, unit::expert_fc1);
    saved.keep(this, "rows", rows);
  }
  {
    const UnitScope scope(saved, unit::moe_act);
    saved.keep(this, "activated", activated);
  }
  if (!saved.output_is_read()) return {};
  const Tensor results = context.activation(rows.shape(), saved.output_tag());  // [A, H]
  product(context, GemmForm::forward, *parts_.down, activated, offsets, results);
  add_bias(context, parts_.down_bias.get(), results, offsets);
  return TensorSet(moe_edge::results, results);
}

TensorSet ExpertsSegment::backward_input(RankContext& context, const Batch&, const TensorSet& d_out,
                                         SavedStore& saved) {
  const Tensor d_results = d_out.get(moe_edge::results);  // [A, H]
  const Tensor offsets = saved.get(this, "offsets");
  const Tensor raised = saved.take(this, "raised");  // overwritten by its gradient
  const Tensor d_activated =
      context.activation({d_results.dim(0), features()}, MemoryTag::activations);
  add_bias_gradient(context, parts_.down_bias.get(), d_results, offsets);
  product(context, GemmForm::data_gradient, *parts_.down, d_results, offsets, d_activated);
  activation_backward(context.ops,
                      {parts_.activation, parts_.gated, d_activated, raised, raised, parts_.shape});
  add_bias_gradient(context, parts_.up_bias.get(), raised, offsets);
  const Tensor d_rows = context.activation(d_results.shape(), MemoryTag::activations);
  product(context, GemmForm::data_gradient, *parts_.up, raised, offsets, d_rows);
  saved.keep(this, "d_raised", raised);
  saved.keep(this, "d_results", d_results);
  return TensorSet(moe_edge::rows, d_rows);
}

void ExpertsSegment::weight_gradient(RankContext& context, const Parameter& weight,
                                     const Tensor& dy, const Tensor& x,
                                     const Tensor& offsets) const {
  const GradientAccess::Destination destination = context.gradients->gradient(weight);
  GroupedGemmArgs args{GemmForm::weight_gradient, dy,      x,
                       destination.tensor,        offsets, destination.mode};
  if (context.settings.fusions.gradient_accumulation) {
    grouped_gemm(context.ops, args);
  } else {  // a temporary [E' · N, K], then destination (= or +=) it
    args.c = context.ops.allocate(destination.tensor.dtype(), destination.tensor.shape(),
                                  MemoryTag::workspace);
    args.mode = WriteMode::assign;
    grouped_gemm(context.ops, args);
    copy(context.ops, {args.c, destination.tensor, destination.mode});
  }
  context.gradients->done(weight);
}

void ExpertsSegment::backward_weight(RankContext& context, const Batch&, SavedStore& saved) {
  const Tensor offsets = saved.take(this, "offsets");
  weight_gradient(context, *parts_.down, saved.take(this, "d_results"),
                  saved.take(this, "activated"), offsets);
  weight_gradient(context, *parts_.up, saved.take(this, "d_raised"), saved.take(this, "rows"),
                  offsets);
}

std::vector<const Parameter*> ExpertsSegment::parameters() const {
  std::vector<const Parameter*> list{parts_.up.get(), parts_.down.get()};
  if (parts_.up_bias) list.insert(list.begin() + 1, parts_.up_bias.get());
  if (parts_.down_bias) list.push_back(parts_.down_bias.get());
  return list;
}

}  // namespace viaduct
