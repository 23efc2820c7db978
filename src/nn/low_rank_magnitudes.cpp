// The magnitudes of low-rank terms (nn/low_rank.h).

#include <algorithm>
#include <optional>

#include "nn/low_rank.h"
#include "nn/row_norms.h"
#include "ops/elementwise.h"
#include "ops/gemm.h"

namespace viaduct {
namespace {

/// out [T, F] = x [T, F] · factor [F].
void multiply_columns(RankContext& context, const Tensor& x, const Tensor& factor,
                      const Tensor& out) {
  const int64_t rows = x.dim(0), columns = x.dim(1);
  multiply(context.ops,
           {x.view({1, rows, columns}), factor.view({1, columns}), out.view({1, rows, columns})});
}

/// [F] the sums over tokens of x · y, both [T, F].
Tensor sum_of_products(RankContext& context, const Tensor& x, const Tensor& y) {
  const int64_t tokens = x.dim(0), features = x.dim(1);
  const Tensor sum = context.statistic({features}, MemoryTag::workspace);
  fill(context.ops, {sum, 0});
  const int64_t step = std::max<int64_t>(1, kRowTileElements / std::max<int64_t>(1, features));
  for (int64_t begin = 0; begin < tokens; begin += step) {
    const int64_t count = std::min(step, tokens - begin);
    const Tensor tile = context.statistic({count, features}, MemoryTag::workspace);
    multiply(context.ops, {x.slice(0, begin, count).view({count, 1, features}),
                           y.slice(0, begin, count), tile.view({count, 1, features})});
    column_sum(context.ops, {tile, sum, WriteMode::accumulate});
  }
  return sum;
}

}  // namespace

void LowRankTerms::add_features(RankContext& context, double factor, const Tensor& from,
                                const Tensor& y) const {
  for (const Term& term : terms_) {
    const Tensor to = y.slice(1, term.first_feature, term.features);
    Tensor added = from.slice(1, term.first_feature, term.features);
    if (factor != 1) {
      const Tensor scaled =
          context.ops.allocate(added.dtype(), added.shape(), MemoryTag::workspace);
      scale(context.ops, {added, scaled, factor});
      added = scaled;
    }
    add(context.ops, {to, added, to});
  }
}

Tensor LowRankTerms::inverse_norms(RankContext& context, const Tensor& weight,
                                   const Term& term) const {
  const AcquiredWeight a(context.weights, *a_, WeightUse::elementwise);
  const AcquiredWeight b(context.weights, *term.b, WeightUse::elementwise);
  const LowRankSum added{a.tensor().slice(0, term.first, term.rank), b.tensor(), term.scale};
  // Replicas of all tensor ranks: W is cut by its inputs.
  const bool cut = term.m->parts.front().replicas == Replicas::tp;
  return inverse_row_norms(context, weight.slice(0, term.first_feature, term.features), &added,
                           cut);
}

void LowRankTerms::apply_magnitudes(RankContext& context, const Parameter& weight, const Tensor& z,
                                    SavedStore& saved) const {
  std::optional<AcquiredWeight> w;  // for all terms: a stored one is made anew each time
  for (const Term& term : terms_) {
    const Tensor features = z.slice(1, term.first_feature, term.features);
    Tensor made, inverse;
    Tensor& factor = context.magnitude_factors != nullptr && !saved.keeps()
                         ? context.magnitude_factors->of(*term.m)
                         : made;
    if (!factor) {
      if (!w) w.emplace(context.weights, weight, WeightUse::elementwise);
      inverse = inverse_norms(context, w->tensor(), term);
      const AcquiredWeight m(context.weights, *term.m, WeightUse::elementwise);
      factor = context.statistic({term.features}, MemoryTag::activations);
      multiply_columns(context, m.tensor().view({1, term.features}), inverse,
                       factor.view({1, term.features}));
    }
    if (saved.keeps()) {
      const Tensor kept = context.activation(features.shape(), saved.tag());
      copy(context.ops, {features, kept});
      saved.keep(term.m.get(), "z", kept);
      saved.keep_statistic(term.m.get(), "inverse norms", inverse);
      saved.keep_statistic(term.m.get(), "factors", factor);
    }
    multiply_columns(context, features, factor, features);
  }
}

Tensor LowRankTerms::magnitude_gradients(RankContext& context, const Tensor& dy,
                                         SavedStore& saved) const {
  const Tensor dz = context.activation(dy.shape(), MemoryTag::activations);
  copy(context.ops, {dy, dz});
  for (const Term& term : terms_) {
    const Tensor d_features = dy.slice(1, term.first_feature, term.features);
    const Tensor sum = sum_of_products(context, d_features, saved.take(term.m.get(), "z"));
    multiply_columns(context, sum.view({1, term.features}),
                     saved.take(term.m.get(), "inverse norms"), sum.view({1, term.features}));
    const auto destination = context.gradients->gradient(*term.m);
    copy(context.ops, {sum, destination.tensor, destination.mode});
    context.gradients->done(*term.m);
    multiply_columns(context, d_features, saved.take(term.m.get(), "factors"),
                     dz.slice(1, term.first_feature, term.features));
  }
  return dz;
}

}  // namespace viaduct
