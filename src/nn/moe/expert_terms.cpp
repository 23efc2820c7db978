#include "nn/moe/expert_terms.h"

#include "nn/weight_gradient.h"
#include "ops/grouped_gemm.h"

namespace viaduct {

Tensor ExpertTerms::reduce(RankContext& context, const Tensor& x, const Tensor& offsets,
                           SavedStore& saved) const {
  const Tensor reduced = context.activation({x.dim(0), ranks()}, saved.tag());
  const AcquiredWeight a(context.weights, *a_, WeightUse::forward);
  grouped_gemm(context.ops, {GemmForm::forward, x, a.operand(), reduced, offsets});
  scale_terms(context, terms_, reduced);
  saved.keep(this, "reduced", reduced);
  return reduced;
}

void ExpertTerms::add_to(RankContext& context, const Tensor& reduced, const Tensor& offsets,
                         const Tensor& y) const {
  for (const Term& term : terms_) {
    const AcquiredWeight b(context.weights, *term.b, WeightUse::forward);
    grouped_gemm(context.ops,
                 {GemmForm::forward, reduced.slice(1, term.first, term.rank), b.operand(),
                  y.slice(1, term.first_feature, term.features), offsets, WriteMode::accumulate});
  }
}

void ExpertTerms::add_input_gradient(RankContext& context, const Tensor& dy, const Tensor& offsets,
                                     const Tensor& dx, SavedStore& saved) const {
  // d_reduced [R, Σ r] = s · dy · B, by term
  const Tensor d_reduced = context.activation({dy.dim(0), ranks()}, MemoryTag::activations);
  for (const Term& term : terms_) {
    const AcquiredWeight b(context.weights, *term.b, WeightUse::data_gradient);
    grouped_gemm(context.ops,
                 {GemmForm::data_gradient, dy.slice(1, term.first_feature, term.features),
                  b.operand(), d_reduced.slice(1, term.first, term.rank), offsets});
  }
  scale_terms(context, terms_, d_reduced);
  const AcquiredWeight a(context.weights, *a_, WeightUse::data_gradient);
  grouped_gemm(context.ops, {GemmForm::data_gradient, d_reduced, a.operand(), dx, offsets,
                             WriteMode::accumulate});
  saved.keep(this, "d_reduced", d_reduced);
}

void ExpertTerms::weight_gradient(RankContext& context, const Parameter& factor, const Tensor& dy,
                                  const Tensor& x, const Tensor& offsets) const {
  const GradientAccess::Destination destination = context.gradients->product_gradient(factor);
  make_grouped_gradient(context, {GemmForm::weight_gradient, dy, x, {}, offsets}, destination);
  context.gradients->done(factor);
}

void ExpertTerms::weight_gradients(RankContext& context, const Tensor& x, const Tensor& dy,
                                   const Tensor& offsets, SavedStore& saved) const {
  weight_gradient(context, *a_, saved.take(this, "d_reduced"), x, offsets);
  const Tensor reduced = saved.take(this, "reduced");  // has the scale already
  for (const Term& term : terms_)
    weight_gradient(context, *term.b, dy.slice(1, term.first_feature, term.features),
                    reduced.slice(1, term.first, term.rank), offsets);
}

void ExpertTerms::append_parameters(std::vector<const Parameter*>& list) const {
  if (!any()) return;
  list.push_back(a_.get());
  for (const Term& term : terms_) list.push_back(term.b.get());
}

}  // namespace viaduct
