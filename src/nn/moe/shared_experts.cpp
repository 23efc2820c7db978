#include "nn/moe/shared_experts.h"

#include "ops/elementwise.h"
#include "ops/expert_rows.h"
#include "ops/routing.h"

namespace viaduct {
namespace {

/// Of one expert, with the weight sigmoid(logit).
RoutingRule gate_rule() {
  RoutingRule rule;
  rule.score = ScoreFunction::sigmoid;
  rule.topk = 1;
  return rule;
}

}  // namespace

Edge SharedExpertSegment::inputs(const RankContext& context, const Batch& batch) const {
  return {MoeEdges(context, batch, moe_, place_, hidden_).tokens()};
}

Tensor SharedExpertSegment::inside(RankContext& context, const Tensor& tokens,
                                   SavedStore& saved) const {
  // All tokens of tensor ranks.
  const Tensor raised = parts_.up.forward(context, tokens, saved, saved.tag());
  const Tensor activated =
      context.activation({raised.dim(0), raised.dim(1) / (parts_.gated ? 2 : 1)}, saved.tag());
  activation_forward(context.ops, {parts_.activation, parts_.gated, raised, activated});
  saved.keep(this, "raised", raised);
  return parts_.gate ? parts_.down.forward(context, activated, saved, saved.tag()) : activated;
}

Tensor SharedExpertSegment::inside_unit(RankContext& context, const Tensor& tokens,
                                        SavedStore& saved) const {
  const auto again = [](const SharedExpertSegment& self, RankContext& rank, const Batch&,
                        SavedStore& store, const std::vector<Tensor>& inputs) {
    return std::vector{self.inside(rank, inputs[0], store)};
  };
  ReplayableUnit scope(saved, unit::shared_experts, {tokens}, {*this, again});
  const Tensor made = inside(context, tokens, saved);
  scope.made({made});
  return made;
}

TensorSet SharedExpertSegment::forward(RankContext& context, const Batch&, const TensorSet& in,
                                       SavedStore& saved) {
  const Tensor tokens = in.get(moe_edge::tokens);
  const Tensor made = inside_unit(context, tokens, saved);
  const UnitScope scope(saved, unit::shared_experts);
  TensorSet out(moe_edge::tokens, tokens);
  Tensor shared;
  if (parts_.gate) {
    shared = weigh(context, tokens, made, saved);
  } else if (saved.output_is_read(moe_edge::shared)) {
    shared = parts_.down.forward(context, made, saved, saved.output_tag());
  } else {
    parts_.down.keep(context, made, saved);
  }
  if (shared) out.set(moe_edge::shared, shared);
  return out;
}

Tensor SharedExpertSegment::weigh(RankContext& context, const Tensor& tokens, const Tensor& result,
                                  SavedStore& saved) const {
  const int64_t count = tokens.dim(0);
  const auto integers = [&](const Shape& shape, DType dtype = DType::i32) {
    return context.ops.allocate(dtype, shape, MemoryTag::saved);
  };
  const Tensor logits = parts_.gate->forward(context, tokens, saved);
  CombineRowsArgs product;
  product.rows = result;
  product.weight = context.statistic({count, 1}, saved.statistic_tag());
  const Tensor choice = integers({count, 1});
  route(context.ops, {gate_rule(), logits, Tensor(), product.weight, choice});
  // The only expert has the tokens in their order.
  product.position = integers({count, 1});
  sort_by_expert(context.ops, {choice, 1, 1, integers({count}), product.position,
                               integers({1}, DType::i64), integers({2})});
  saved.keep_statistic(this, "gate logits", logits);
  saved.keep_statistic(this, "gate", product.weight);
  saved.keep_statistic(this, "gate choice", choice);
  saved.keep_statistic(this, "gate position", product.position);
  saved.keep(this, "result", result);
  if (!saved.output_is_read(moe_edge::shared)) return {};
  product.out = context.activation(result.shape(), saved.output_tag());
  combine_rows(context.ops, product);
  return product.out;
}

Tensor SharedExpertSegment::weigh_backward(RankContext& context, const Tensor& d_shared,
                                           Tensor& d_logits, SavedStore& saved) const {
  CombineRowsBackwardArgs product;
  product.d_out = d_shared;
  product.rows = saved.take(this, "result");
  product.position = saved.take(this, "gate position");
  product.weight = saved.take(this, "gate");
  product.d_rows = context.activation(product.rows.shape(), MemoryTag::activations);
  product.d_weight = context.statistic(product.weight.shape(), MemoryTag::activations);
  combine_rows_backward(context.ops, product);
  d_logits = saved.take(this, "gate logits");  // overwritten by their gradient
  route_backward(
      context.ops,
      {gate_rule(), product.d_weight, d_logits, saved.take(this, "gate choice"), d_logits, {}});
  return product.d_rows;
}

SharedExpertSegment::OwnGradient SharedExpertSegment::begin_backward(RankContext& context,
                                                                     const Tensor& d_shared,
                                                                     SavedStore& saved) {
  OwnGradient own;
  const Tensor d_result =
      parts_.gate ? weigh_backward(context, d_shared, own.d_gate_logits, saved) : d_shared;
  const Tensor d_activated = parts_.down.backward_input(context, d_result, saved);
  const Tensor raised = saved.take(this, "raised");  // overwritten by its gradient
  activation_backward(context.ops, {parts_.activation, parts_.gated, d_activated, raised, raised});
  own.d_tokens = parts_.up.backward_input(context, raised, saved);
  return own;
}

Tensor SharedExpertSegment::finish_backward(RankContext& context, const OwnGradient& own,
                                            const Tensor& d_passed, SavedStore& saved) {
  const Tensor passed =
      parts_.gate ? parts_.gate->backward_input(context, own.d_gate_logits, d_passed, saved)
                  : d_passed;
  const Tensor d_tokens = context.activation(passed.shape(), MemoryTag::activations);
  add(context.ops, {passed, own.d_tokens, d_tokens});
  return d_tokens;
}

TensorSet SharedExpertSegment::backward_input(RankContext& context, const Batch&,
                                              const TensorSet& d_out, SavedStore& saved) {
  const OwnGradient own = begin_backward(context, d_out.get(moe_edge::shared), saved);
  return TensorSet(moe_edge::tokens,
                   finish_backward(context, own, d_out.get(moe_edge::tokens), saved));
}

void SharedExpertSegment::backward_weight(RankContext& context, const Batch&, SavedStore& saved) {
  parts_.down.backward_weight(context, saved);
  parts_.up.backward_weight(context, saved);
  if (parts_.gate) parts_.gate->backward_weight(context, saved);
}

std::vector<const Parameter*> SharedExpertSegment::parameters() const {
  std::vector<const Parameter*> list;
  parts_.up.append_parameters(list);
  parts_.down.append_parameters(list);
  if (parts_.gate) parts_.gate->append_parameters(list);
  return list;
}

}  // namespace viaduct
