#pragma once
// The last segment of a mixture of experts: results back to the ranks of their tokens, their sum by
// the router's probabilities (and the shared expert's result) → dropout → +. Where tokens are sent
// by domain, nn/moe/domain_combine.h is in its place.

#include "nn/moe/expert_exchange.h"

namespace viaduct {

class CombineSegment final : public CombineExchange {
 public:
  using CombineExchange::CombineExchange;

  Begun begin_forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet end_forward(RankContext&, const Batch&, UnderWay& begun, SavedStore&) override;
  Begun begin_backward(RankContext&, const Batch&, const TensorSet& d_out, SavedStore&) override;
  TensorSet end_backward(RankContext&, const Batch&, UnderWay& begun, SavedStore&) override;

 private:
  struct ResultsLeaving;
  struct GradientsLeaving;
  /// [T, H]: each token's sum over the results of its experts.
  Tensor sum_rows(RankContext& context, ResultsLeaving& leaving) const;
};

}  // namespace viaduct
