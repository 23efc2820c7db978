#pragma once
// The low-rank terms of the weights of a rank's experts (nn/low_rank.h), as grouped products: of
// the rows of expert e, y += s · (x A_eᵀ) B_eᵀ. The matrices of a factor are stored one after the
// other in one parameter, as the experts' weights are. The terms have the parallel state of the
// weight: of one that is cut by its outputs every copy of an expert has A whole and its rows of B,
// of one cut by its inputs its columns of A and B whole; what the copies give is summed with what
// the weight gives. In training rows may be dropped as in nn/low_rank.h, by the indices of their
// tokens, which come with them (moe_edge::row_index): every layout drops the same, and the experts
// of a token drop the same of it.

#include <memory>
#include <vector>

#include "nn/low_rank.h"

namespace viaduct {

class ExpertTerms {
 public:
  /// Features are those of an expert's y, rows those of each A_e; b is [E' · features, rank].
  using Term = LowRankTerms::Term;

  ExpertTerms() = default;  // none
  ExpertTerms(std::shared_ptr<const Parameter> a, std::vector<Term> terms,
              LowRankTerms::Dropout dropout)
      : a_(std::move(a)), terms_(std::move(terms)), dropout_(dropout) {}

  bool any() const { return a_ != nullptr; }

  /// The rows x [R, in] of the experts, one expert after the other.
  struct Rows {
    Tensor offsets;  // i32 [E' + 1] (ops/grouped_gemm.h)
    Tensor index;    // i64 [R]: of their tokens; undefined where nothing is dropped
  };
  /// s · x Aᵀ [R, Σ r] of all terms, kept for the backward.
  Tensor reduce(RankContext& context, const Tensor& x, const Rows& rows, SavedStore& saved) const;
  /// y [R, out] += the terms, of what `reduce` gave.
  void add_to(RankContext& context, const Tensor& reduced, const Rows& rows, const Tensor& y) const;
  /// dx [R, in] += the terms' part of the gradient, from dy [R, out]; keeps what the gradients of
  /// the weights need.
  void add_input_gradient(RankContext& context, const Tensor& dy, const Rows& rows,
                          const Tensor& dx, SavedStore& saved) const;
  /// dA and dB (= or +=), from x and dy.
  void weight_gradients(RankContext& context, const Tensor& x, const Tensor& dy, const Rows& rows,
                        SavedStore& saved) const;

  void append_parameters(std::vector<const Parameter*>& list) const;

 private:
  int64_t ranks() const { return terms_.back().first + terms_.back().rank; }
  void weight_gradient(RankContext& context, const Parameter& factor, const Tensor& dy,
                       const Tensor& x, const Tensor& offsets) const;

  /// x as the terms see it.
  Tensor dropped(RankContext& context, const Tensor& x, const Rows& rows) const;
  /// dy [R, out] at the features of a term, as what the term adds gets it.
  Tensor gradient_of(RankContext& context, const Term& term, const Tensor& dy,
                     const Rows& rows) const;

  std::shared_ptr<const Parameter> a_;  // [E' · Σ r, in]
  std::vector<Term> terms_;
  LowRankTerms::Dropout dropout_;
};

}  // namespace viaduct
