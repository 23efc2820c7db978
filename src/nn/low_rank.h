#pragma once
// The low-rank terms of a linear layer's weight W [out, in] (nn/adapter_settings.h):
//
//   y [T, out] += s · (x Aᵀ) Bᵀ,   A [r, in], B [out, r]
//
// A layer of several logical matrices (q, k, v) has a term for each that is adapted: the A of all
// lie one after the other in one parameter, and each B adds to its own features of y. The terms
// have the parallel state of the base: with W cut by its outputs every tensor rank has A whole and
// its rows of B, with W cut by its inputs its columns of A and B whole; so what the terms add to y
// and dx is summed over tensor ranks with what the base gives, in one exchange.
//
// In training the terms may see a dropped x: of the layer's random numbers, the same for all its
// terms and in every layout. Or what each adds is dropped instead (Megatron-Bridge's
// dropout_position `post`), by random numbers of the term and its output features. With magnitudes
// m [out] (Liu et al. 2024, "DoRA")
//
//   y = f · z,   z = x (W + s · B A)ᵀ,   f_i = m_i / ‖W_i + s · B_i A‖
//
// and the norm is a constant of the backward: dm_i = Σ dy_i z_i / ‖…‖, and everything else has f ·
// dy for its dy. f is the factor of every rank's part of a sum over tensor ranks. With dropout z is
// of the dropped x, the base's term too: y = x Wᵀ − dropped(x) Wᵀ + f · z, as in PEFT.

#include <deque>
#include <memory>
#include <vector>

#include "nn/context.h"
#include "nn/saved.h"
#include "ops/gemm.h"

namespace viaduct {

/// Low-rank terms as those of the product of the weight, and what they hold until it is done.
struct ProductTerms {
  std::deque<AcquiredWeight> weights;
  std::vector<GemmTerm> terms;
  TermReduction reduction = {};  // where the product makes what they read
};

class LowRankTerms {
 public:
  struct Term {
    int64_t first_feature = 0, features = 0;  // of y as held by this rank
    int64_t first = 0, rank = 0;              // rows of A
    double scale = 1;
    std::shared_ptr<const Parameter> b;       // [features, rank]
    std::shared_ptr<const Parameter> m = {};  // [features]; null: no magnitudes
  };
  /// Of the terms' input, or `after`: of what each adds.
  struct Dropout {
    double probability = 0;
    bool after = false;
    uint64_t path_hash = 0;     // of the layer: of the input
    int64_t first_feature = 0;  // of this rank's input features
    bool of_stream = false;     // x has this rank's rows of the stream, not those of all tokens

    bool drops_inputs(const RankContext& context) const {
      return context.training && probability > 0 && !after;
    }
    bool drops_outputs(const RankContext& context) const {
      return context.training && probability > 0 && after;
    }
  };

  LowRankTerms() = default;  // none
  LowRankTerms(std::shared_ptr<const Parameter> a, std::vector<Term> terms, Dropout dropout)
      : a_(std::move(a)), terms_(std::move(terms)), dropout_(dropout) {}

  bool any() const { return a_ != nullptr; }
  bool have_magnitudes() const { return any() && terms_.front().m != nullptr; }
  /// Whether the terms see a dropped x.
  bool drop(const RankContext& context) const { return dropout_.drops_inputs(context); }
  /// x [T, in] as the terms see it; x itself without dropout.
  Tensor dropped(RankContext& context, const Tensor& x) const;

  /// s · x Aᵀ [T, Σ r] of all terms for x [T, in], kept for the backward.
  Tensor reduce(RankContext& context, const Tensor& x, SavedStore& saved) const {
    return reduce_dropped(context, dropped(context, x), saved);
  }
  /// The same of x as the terms see it.
  Tensor reduce_dropped(RankContext& context, const Tensor& x, SavedStore& saved) const;
  /// y [T, out] += the terms, of what `reduce` gave.
  void add_to(RankContext& context, const Tensor& reduced, const Tensor& y) const;
  /// Whether y's product itself may have the terms, so that their sum is rounded once, and whether
  /// dx's may.
  bool join_product(const RankContext& context) const;
  bool join_gradient(const RankContext& context) const;
  /// The terms of y's product, with what `reduce` gives of x. `half`: columns of a half of y if the
  /// product gates them, else 0.
  ProductTerms in_product(RankContext& context, const Tensor& x, int64_t half,
                          SavedStore& saved) const;
  /// s · dy · B [T, Σ r] of all terms from dy [T, out], kept for the gradients of the weights.
  Tensor reduce_gradient(RankContext& context, const Tensor& dy, SavedStore& saved) const;
  /// The terms of dx's product, of what `reduce_gradient` gave.
  ProductTerms in_gradient(RankContext& context, const Tensor& d_reduced) const;
  /// dx [T, in] += the terms' part of the gradient, from dy [T, out]; keeps what the gradients of
  /// the weights need. `d_dropped` [T, in]: what else the gradient of the dropped x has, or
  /// undefined; it is overwritten.
  void add_input_gradient(RankContext& context, const Tensor& dy, const Tensor& dx,
                          SavedStore& saved, const Tensor& d_dropped = {}) const;
  /// dA and dB (= or +=), from x and dy of all tokens.
  void weight_gradients(RankContext& context, const Tensor& x, const Tensor& dy,
                        SavedStore& saved) const;

  // With magnitudes (nn/low_rank_magnitudes.cpp):

  /// y [T, out] += factor · the features of `from` [T, out] that have terms.
  void add_features(RankContext& context, double factor, const Tensor& from, const Tensor& y) const;
  /// z [T, out] becomes f · z where it has terms; keeps z and f. `weight`: the layer's.
  void apply_magnitudes(RankContext& context, const Parameter& weight, const Tensor& z,
                        SavedStore& saved) const;
  /// dz [T, out] = f · dy where there are terms, else dy; the gradients of m accumulate.
  Tensor magnitude_gradients(RankContext& context, const Tensor& dy, SavedStore& saved) const;

  void append_parameters(std::vector<const Parameter*>& list) const;

 private:
  /// Whether y's product may make what `reduce` gives of x.
  bool reduce_in_product(const RankContext& context, const Tensor& x) const;
  /// Whether the ops have products with so many contracted elements of terms.
  bool fit_products(const RankContext& context) const;
  /// 1 / ‖rows of W + s · B A‖ [features] of a term; `weight` [out, in]: the layer's.
  Tensor inverse_norms(RankContext& context, const Tensor& weight, const Term& term) const;
  /// i64 [T]: the indices of the tokens of `rows` rows of x.
  Tensor tokens_of(const RankContext& context, int64_t rows) const;
  /// dy [T, out] at the features of a term, as what the term adds gets it.
  Tensor gradient_of(RankContext& context, const Term& term, const Tensor& dy) const;

  std::shared_ptr<const Parameter> a_;  // [Σ r, in]
  std::vector<Term> terms_;
  Dropout dropout_;
};

/// out [T, in] = what terms read, x, dropped in training; in place if `out` is x. The gradient is
/// the same of that of x. `tokens`: i64 [T], their indices.
void drop_input(RankContext& context, const LowRankTerms::Dropout& dropout, const Tensor& tokens,
                const Tensor& x, const Tensor& out);
/// out [T, features] = what a term adds, x, dropped in training; in place if `out` is x. The
/// gradient is the same of dy. `tokens`: i64 [T], their indices.
void drop_added(RankContext& context, const LowRankTerms::Dropout& dropout,
                const LowRankTerms::Term& term, const Tensor& tokens, const Tensor& x,
                const Tensor& out);

/// The columns of each term in reduced [T, Σ r] times its scale.
void scale_terms(RankContext& context, const std::vector<LowRankTerms::Term>& terms,
                 const Tensor& reduced);

}  // namespace viaduct
