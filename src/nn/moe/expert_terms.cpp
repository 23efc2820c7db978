#include "nn/moe/expert_terms.h"

#include "nn/weight_gradient.h"
#include "ops/elementwise.h"
#include "ops/grouped_gemm.h"

namespace viaduct {

Tensor ExpertTerms::dropped(RankContext& context, const Tensor& x, const Rows& rows) const {
  if (!dropout_.drops_inputs(context)) return x;
  const Tensor out = context.ops.allocate(x.dtype(), x.shape(), MemoryTag::activations);
  drop_input(context, dropout_, rows.index, x, out);
  return out;
}

Tensor ExpertTerms::gradient_of(RankContext& context, const Term& term, const Tensor& dy,
                                const Rows& rows) const {
  const Tensor own = dy.slice(1, term.first_feature, term.features);
  if (!dropout_.drops_outputs(context)) return own;
  const Tensor dropped = context.ops.allocate(own.dtype(), own.shape(), MemoryTag::activations);
  drop_added(context, dropout_, term, rows.index, own, dropped);
  return dropped;
}

Tensor ExpertTerms::reduce(RankContext& context, const Tensor& x, const Rows& rows,
                           SavedStore& saved) const {
  const Tensor reduced = context.activation({x.dim(0), ranks()}, saved.tag());
  const AcquiredWeight a(context.weights, *a_, WeightUse::forward);
  grouped_gemm(context.ops,
               {GemmForm::forward, dropped(context, x, rows), a.operand(), reduced, rows.offsets});
  scale_terms(context, terms_, reduced);
  saved.keep(this, "reduced", reduced);
  return reduced;
}

void ExpertTerms::add_to(RankContext& context, const Tensor& reduced, const Rows& rows,
                         const Tensor& y) const {
  for (const Term& term : terms_) {
    const AcquiredWeight b(context.weights, *term.b, WeightUse::forward);
    const Tensor own = reduced.slice(1, term.first, term.rank);
    const Tensor to = y.slice(1, term.first_feature, term.features);
    if (!dropout_.drops_outputs(context)) {
      grouped_gemm(context.ops,
                   {GemmForm::forward, own, b.operand(), to, rows.offsets, WriteMode::accumulate});
      continue;
    }
    const Tensor added = context.activation(to.shape(), MemoryTag::activations);
    grouped_gemm(context.ops, {GemmForm::forward, own, b.operand(), added, rows.offsets});
    drop_added(context, dropout_, term, rows.index, added, added);
    add(context.ops, {to, added, to});
  }
}

void ExpertTerms::add_input_gradient(RankContext& context, const Tensor& dy, const Rows& rows,
                                     const Tensor& dx, SavedStore& saved) const {
  // d_reduced [R, Σ r] = s · dy · B, by term
  const Tensor d_reduced = context.activation({dy.dim(0), ranks()}, MemoryTag::activations);
  for (const Term& term : terms_) {
    const AcquiredWeight b(context.weights, *term.b, WeightUse::data_gradient);
    grouped_gemm(context.ops,
                 {GemmForm::data_gradient, gradient_of(context, term, dy, rows), b.operand(),
                  d_reduced.slice(1, term.first, term.rank), rows.offsets});
  }
  scale_terms(context, terms_, d_reduced);
  const AcquiredWeight a(context.weights, *a_, WeightUse::data_gradient);
  if (!dropout_.drops_inputs(context)) {
    grouped_gemm(context.ops, {GemmForm::data_gradient, d_reduced, a.operand(), dx, rows.offsets,
                               WriteMode::accumulate});
  } else {
    const Tensor d_x = context.ops.allocate(dx.dtype(), dx.shape(), MemoryTag::activations);
    grouped_gemm(context.ops, {GemmForm::data_gradient, d_reduced, a.operand(), d_x, rows.offsets});
    drop_input(context, dropout_, rows.index, d_x, d_x);
    add(context.ops, {dx, d_x, dx});
  }
  saved.keep(this, "d_reduced", d_reduced);
}

void ExpertTerms::weight_gradient(RankContext& context, const Parameter& factor, const Tensor& dy,
                                  const Tensor& x, const Tensor& offsets) const {
  const GradientAccess::Destination destination = context.gradients->product_gradient(factor);
  make_grouped_gradient(context, {GemmForm::weight_gradient, dy, x, {}, offsets}, destination);
  context.gradients->done(factor);
}

void ExpertTerms::weight_gradients(RankContext& context, const Tensor& x, const Tensor& dy,
                                   const Rows& rows, SavedStore& saved) const {
  weight_gradient(context, *a_, saved.take(this, "d_reduced"), dropped(context, x, rows),
                  rows.offsets);
  const Tensor reduced = saved.take(this, "reduced");  // has the scale already
  for (const Term& term : terms_)
    weight_gradient(context, *term.b, gradient_of(context, term, dy, rows),
                    reduced.slice(1, term.first, term.rank), rows.offsets);
}

void ExpertTerms::append_parameters(std::vector<const Parameter*>& list) const {
  if (!any()) return;
  list.push_back(a_.get());
  for (const Term& term : terms_) list.push_back(term.b.get());
}

}  // namespace viaduct
