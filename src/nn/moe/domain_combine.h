#pragma once
// Combine by domain (ExpertPlace::by_domain): results go to the rank of their domain that made rows
// of the token, which sums them by the router's probabilities; the sums go to the token's rank,
// which adds them (and the shared expert's result) → dropout → +. The exchange between domains is
// under way between its two parts, as in nn/moe/domain_dispatch.h.

#include "nn/exchange_segment.h"
#include "nn/moe/moe_edges.h"
#include "nn/residual.h"

namespace viaduct {

class DomainCombineSegment final : public ExchangeSegment {
 public:
  DomainCombineSegment(MoeConfig moe, ExpertPlace place, int64_t hidden, ResidualDropout residual)
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
  MoeConfig moe_;
  ExpertPlace place_;
  int64_t hidden_;
  ResidualDropout residual_;
};

}  // namespace viaduct
