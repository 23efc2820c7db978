#pragma once
// How the products of a linear layer and the exchanges of their rows run beside each other: the
// layer's rows of the context's table (nn/gemm_overlap.h).

#include <memory>
#include <optional>

#include "nn/context.h"
#include "nn/gemm_overlap.h"

namespace viaduct {

/// Which layer of a block it is: selects its rows of the table of overlaps, and the features of W
/// [out, in] that are cut.
enum class LinearRole {
  qkv,   // column-parallel: x is the stream, y this rank's features of all tokens
  proj,  // row-parallel: x is this rank's features of all tokens, y the stream
  fc1,   // column-parallel
  fc2,   // row-parallel
};

class LinearOverlap {
 public:
  /// `terms`: the weight has low-rank terms, whose products come between those of the backward.
  LinearOverlap(LinearRole role, std::shared_ptr<const Parameter> weight, bool terms)
      : role_(role), weight_(std::move(weight)), terms_(terms) {}

  LinearRole role() const { return role_; }
  bool columns() const { return role_ == LinearRole::qkv || role_ == LinearRole::fc1; }
  const GemmOverlap& forward(const RankContext& context) const;
  const GemmOverlap& input_gradient(const RankContext& context) const;
  /// How the reduction of the input gradient and the weight gradient beside it are done; nothing is
  /// set where they are not beside each other.
  GemmOverlap weight_gradient(const RankContext& context) const;

  /// Whether the forward is one product of all rows.
  bool multiplies_all_rows(const RankContext& context) const;
  /// The same of the input gradient.
  bool differentiates_all_rows(const RankContext& context) const;
  /// Whether x is gathered for the weight gradient beside the input gradient's product.
  bool gathers_beside_input_gradient(const RankContext& context) const;
  /// Whether the weight gradient runs beside the reduction of the input gradient.
  bool makes_weight_gradient_early(const RankContext& context) const;

 private:
  /// Whether the gathers and reductions of the backward run beside its products: those of terms
  /// come before the reduction, and all of them read the gathered rows.
  bool overlaps_backward() const { return weight_->trained && !terms_; }

  LinearRole role_;
  std::shared_ptr<const Parameter> weight_;
  bool terms_;
};

}  // namespace viaduct
