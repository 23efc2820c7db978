#include "nn/low_rank.h"

#include <algorithm>
#include <string>

#include "base/hash.h"
#include "nn/product.h"
#include "nn/tensor_exchange.h"
#include "nn/weight_gradient.h"
#include "ops/elementwise.h"
#include "ops/table.h"

namespace viaduct {
namespace {

GemmArgs added_product(GemmForm form, const Tensor& a, const Operand& weight, const Tensor& to) {
  GemmArgs args{form, a, weight, to};
  args.mode = WriteMode::accumulate;
  return args;
}

}  // namespace

void scale_terms(RankContext& context, const std::vector<LowRankTerms::Term>& terms,
                 const Tensor& reduced) {
  using Term = LowRankTerms::Term;
  const double first = terms.front().scale;
  if (std::ranges::all_of(terms, [&](const Term& term) { return term.scale == first; })) {
    if (first != 1) scale(context.ops, {reduced, reduced, first});
    return;
  }
  for (const Term& term : terms) {
    const Tensor columns = reduced.slice(1, term.first, term.rank);
    scale(context.ops, {columns, columns, term.scale});
  }
}

void drop_input(RankContext& context, const LowRankTerms::Dropout& dropout, const Tensor& tokens,
                const Tensor& x, const Tensor& out) {
  DropoutArgs args{x, Tensor(), out, dropout.probability};
  args.key = {context.settings.seed, dropout.path_hash};
  args.token_index = tokens;
  args.first_feature = dropout.first_feature;
  viaduct::dropout(context.ops, args);
}

void drop_added(RankContext& context, const LowRankTerms::Dropout& dropout,
                const LowRankTerms::Term& term, const Tensor& tokens, const Tensor& x,
                const Tensor& out) {
  const uint64_t path_hash = hash64(term.b->path + ".dropout");
  // By the features of the logical matrix, wherever its rows of B are.
  for (const Part& part : term.b->parts) {
    if (part.storage_row >= term.features) break;  // of further experts, which are alike
    const auto features = [&](const Tensor& all) {
      return all.slice(1, part.storage_row, part.rows());
    };
    DropoutArgs args{features(x), Tensor(), features(out), dropout.probability};
    args.key = {context.settings.seed, path_hash};
    args.token_index = tokens;
    args.first_feature = part.box.begin[0];
    viaduct::dropout(context.ops, args);
  }
}

Tensor LowRankTerms::tokens_of(const RankContext& context, int64_t rows) const {
  if (!dropout_.of_stream || !stream_is_cut(context)) return context.token_index;
  return context.token_index.slice(0, context.groups.tp().rank() * rows, rows);
}

Tensor LowRankTerms::gradient_of(RankContext& context, const Term& term, const Tensor& dy) const {
  const Tensor own = dy.slice(1, term.first_feature, term.features);
  if (!dropout_.drops_outputs(context)) return own;
  const Tensor dropped = context.ops.allocate(own.dtype(), own.shape(), MemoryTag::activations);
  drop_added(context, dropout_, term, tokens_of(context, own.dim(0)), own, dropped);
  return dropped;
}

Tensor LowRankTerms::dropped(RankContext& context, const Tensor& x) const {
  if (!drop(context)) return x;
  const Tensor out = context.ops.allocate(x.dtype(), x.shape(), MemoryTag::activations);
  drop_input(context, dropout_, tokens_of(context, x.dim(0)), x, out);
  return out;
}

Tensor LowRankTerms::reduce_dropped(RankContext& context, const Tensor& x,
                                    SavedStore& saved) const {
  const Tensor reduced = context.activation({x.dim(0), a_->shape[0]}, saved.tag());
  const AcquiredWeight a(context.weights, *a_, WeightUse::forward);
  run_product(context.ops, {GemmForm::forward, x, a.operand(), reduced});
  scale_terms(context, terms_, reduced);
  saved.keep(this, "reduced", reduced);
  return reduced;
}

void LowRankTerms::add_to(RankContext& context, const Tensor& reduced, const Tensor& y) const {
  for (const Term& term : terms_) {
    const AcquiredWeight b(context.weights, *term.b, WeightUse::forward);
    const Tensor own = reduced.slice(1, term.first, term.rank);
    const Tensor to = y.slice(1, term.first_feature, term.features);
    if (!dropout_.drops_outputs(context)) {
      run_product(context.ops, added_product(GemmForm::forward, own, b.operand(), to));
      continue;
    }
    const Tensor added = context.activation(to.shape(), MemoryTag::activations);
    run_product(context.ops, {GemmForm::forward, own, b.operand(), added});
    drop_added(context, dropout_, term, tokens_of(context, added.dim(0)), added, added);
    add(context.ops, {to, added, to});
  }
}

bool LowRankTerms::fit_products(const RankContext& context) const {
  if (!any() || have_magnitudes() || !context.ops.ops.product_terms) return false;
  int64_t depth = 0;
  for (const Term& term : terms_) depth += padded_term_depth(term.rank);
  return depth <= kMostTermDepth;
}

bool LowRankTerms::join_product(const RankContext& context) const {
  return fit_products(context) && !dropout_.drops_outputs(context);
}

bool LowRankTerms::join_gradient(const RankContext& context) const {
  return fit_products(context) && !drop(context);
}

bool LowRankTerms::reduce_in_product(const RankContext& context, const Tensor& x) const {
  const double factor = terms_.front().scale;
  return !drop(context) && makes_reduction(context.ops.ops, x.dtype(), x.dim(0)) &&
         std::ranges::all_of(terms_, [&](const Term& term) { return term.scale == factor; });
}

ProductTerms LowRankTerms::in_product(RankContext& context, const Tensor& x, int64_t half,
                                      SavedStore& saved) const {
  ProductTerms joined;
  Tensor reduced;
  if (reduce_in_product(context, x)) {
    const AcquiredWeight& a = joined.weights.emplace_back(context.weights, *a_, WeightUse::forward);
    reduced = context.activation({x.dim(0), a_->shape[0]}, saved.tag());
    joined.reduction = {a.operand(), reduced, terms_.front().scale};
    saved.keep(this, "reduced", reduced);
  } else {
    reduced = reduce(context, x, saved);
  }
  joined.terms.reserve(terms_.size());
  for (const Term& term : terms_) {
    const AcquiredWeight& b = joined.weights.emplace_back(
        context.weights, *term.b, WeightUse::forward, term_run(term.first_feature, half));
    joined.terms.push_back(
        {reduced.slice(1, term.first, term.rank), b.operand(), term.first_feature});
  }
  return joined;
}

ProductTerms LowRankTerms::in_gradient(RankContext& context, const Tensor& d_reduced) const {
  ProductTerms joined;
  const AcquiredWeight& a =
      joined.weights.emplace_back(context.weights, *a_, WeightUse::data_gradient);
  joined.terms.push_back({d_reduced, a.operand()});
  return joined;
}

Tensor LowRankTerms::reduce_gradient(RankContext& context, const Tensor& dy,
                                     SavedStore& saved) const {
  const Tensor d_reduced = context.activation({dy.dim(0), a_->shape[0]}, MemoryTag::activations);
  for (const Term& term : terms_) {
    const AcquiredWeight b(context.weights, *term.b, WeightUse::data_gradient);
    run_product(context.ops, {GemmForm::data_gradient, gradient_of(context, term, dy), b.operand(),
                              d_reduced.slice(1, term.first, term.rank)});
  }
  scale_terms(context, terms_, d_reduced);
  saved.keep(this, "d_reduced", d_reduced);
  return d_reduced;
}

void LowRankTerms::add_input_gradient(RankContext& context, const Tensor& dy, const Tensor& dx,
                                      SavedStore& saved, const Tensor& d_dropped) const {
  const Tensor d_reduced = reduce_gradient(context, dy, saved);
  const AcquiredWeight a(context.weights, *a_, WeightUse::data_gradient);
  if (!drop(context)) {
    run_product(context.ops, added_product(GemmForm::data_gradient, d_reduced, a.operand(), dx));
    return;
  }
  const Tensor d_x =
      d_dropped ? d_dropped : context.ops.allocate(dx.dtype(), dx.shape(), MemoryTag::activations);
  GemmArgs product{GemmForm::data_gradient, d_reduced, a.operand(), d_x};
  if (d_dropped) product.mode = WriteMode::accumulate;
  run_product(context.ops, product);
  drop_input(context, dropout_, tokens_of(context, d_x.dim(0)), d_x, d_x);
  add(context.ops, {dx, d_x, dx});
}

void LowRankTerms::weight_gradients(RankContext& context, const Tensor& x, const Tensor& dy,
                                    SavedStore& saved) const {
  const Tensor d_reduced = saved.take(this, "d_reduced");
  make_weight_gradient(context, d_reduced, dropped(context, x),
                       context.gradients->product_gradient(*a_));
  context.gradients->done(*a_);
  const Tensor reduced = saved.take(this, "reduced");  // has the scale already
  for (const Term& term : terms_) {
    make_weight_gradient(context, gradient_of(context, term, dy),
                         reduced.slice(1, term.first, term.rank),
                         context.gradients->product_gradient(*term.b));
    context.gradients->done(*term.b);
  }
}

void LowRankTerms::append_parameters(std::vector<const Parameter*>& list) const {
  if (!any()) return;
  list.push_back(a_.get());
  for (const Term& term : terms_) {
    list.push_back(term.b.get());
    if (term.m) list.push_back(term.m.get());
  }
}

}  // namespace viaduct
