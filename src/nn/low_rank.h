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

#include <memory>
#include <vector>

#include "nn/context.h"
#include "nn/saved.h"

namespace viaduct {

class LowRankTerms {
 public:
  struct Term {
    int64_t first_feature = 0, features = 0;  // of y as held by this rank
    int64_t first = 0, rank = 0;              // rows of A
    double scale = 1;
    std::shared_ptr<const Parameter> b;  // [features, rank]
  };

  LowRankTerms() = default;  // none
  LowRankTerms(std::shared_ptr<const Parameter> a, std::vector<Term> terms)
      : a_(std::move(a)), terms_(std::move(terms)) {}

  bool any() const { return a_ != nullptr; }

  /// s · x Aᵀ [T, Σ r] of all terms for x [T, in], kept for the backward.
  Tensor reduce(RankContext& context, const Tensor& x, SavedStore& saved) const;
  /// y [T, out] += the terms, of what `reduce` gave.
  void add_to(RankContext& context, const Tensor& reduced, const Tensor& y) const;
  /// dx [T, in] += the terms' part of the gradient, from dy [T, out]; keeps what the gradients of
  /// the weights need.
  void add_input_gradient(RankContext& context, const Tensor& dy, const Tensor& dx,
                          SavedStore& saved) const;
  /// dA and dB (= or +=), from x and dy of all tokens.
  void weight_gradients(RankContext& context, const Tensor& x, const Tensor& dy,
                        SavedStore& saved) const;

  void append_parameters(std::vector<const Parameter*>& list) const;

 private:
  /// The columns of each term times its scale.
  void scale_terms(RankContext& context, const Tensor& reduced) const;

  std::shared_ptr<const Parameter> a_;  // [Σ r, in]
  std::vector<Term> terms_;
};

}  // namespace viaduct
