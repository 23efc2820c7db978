#pragma once
// The last segment of a mixture of experts: results back to the ranks of their tokens, their sum by
// the router's probabilities (and the shared expert's result) → dropout → +. Where tokens are sent
// by domain, nn/moe/domain_combine.h is in its place.

#include "nn/exchange_segment.h"
#include "nn/moe/moe_edges.h"
#include "nn/residual.h"

namespace viaduct {

class CombineSegment final : public ExchangeSegment {
 public:
  CombineSegment(MoeConfig moe, ExpertPlace place, int64_t hidden, ResidualDropout residual)
      : moe_(std::move(moe)), place_(place), hidden_(hidden), residual_(residual) {}

  Edge inputs(const RankContext& context, const Batch& batch) const override;
  std::vector<std::string_view> outputs() const override { return {kHidden}; }
  Begun begin_forward(RankContext& context, const Batch& batch, const TensorSet& in,
                      SavedStore& saved) override;
  TensorSet end_forward(RankContext& context, const Batch& batch, UnderWay& begun,
                        SavedStore& saved) override;
  Begun begin_backward(RankContext& context, const Batch& batch, const TensorSet& d_out,
                       SavedStore& saved) override;
  TensorSet end_backward(RankContext& context, const Batch& batch, UnderWay& begun,
                         SavedStore& saved) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override {}
  std::vector<const Parameter*> parameters() const override { return {}; }
  std::string_view name() const override { return "combine"; }

 private:
  struct ResultsLeaving;
  struct GradientsLeaving;
  /// [T, H]: each token's sum over the results of its experts; undefined where it is not read.
  Tensor sum_rows(RankContext& context, ResultsLeaving& leaving, SavedStore& saved) const;

  MoeConfig moe_;
  ExpertPlace place_;
  int64_t hidden_;
  ResidualDropout residual_;
};

}  // namespace viaduct
