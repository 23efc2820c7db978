#pragma once
// Dispatch by domain (ExpertPlace::by_domain): tokens, choices and probabilities go to each domain
// with one of a token's experts; the rank that gets them there sends rows to the ranks of its
// domain. The exchange between domains, over the slower links, is under way between its two parts;
// exchanges inside a domain are waited for.

#include <memory>

#include "nn/exchange_segment.h"
#include "nn/moe/moe_edges.h"
#include "nn/moe/shared_experts.h"

namespace viaduct {

class DomainDispatchSegment final : public ExchangeSegment {
 public:
  /// `beside`: as in DispatchSegment, while tokens are under way between domains.
  /// `block`: global number of the layer.
  DomainDispatchSegment(MoeConfig moe, ExpertPlace place, int64_t hidden, int64_t block,
                        std::unique_ptr<SharedExpertSegment> beside = nullptr)
      : moe_(std::move(moe)),
        place_(place),
        hidden_(hidden),
        block_(block),
        beside_(std::move(beside)) {}

  Edge inputs(const RankContext& context, const Batch& batch) const override;
  std::vector<std::string_view> outputs() const override;
  Begun begin_forward(RankContext& context, const Batch& batch, const TensorSet& in,
                      SavedStore& saved) override;
  TensorSet end_forward(RankContext& context, const Batch& batch, UnderWay& begun,
                        SavedStore& saved) override;
  Begun begin_backward(RankContext& context, const Batch& batch, const TensorSet& d_out,
                       SavedStore& saved) override;
  TensorSet end_backward(RankContext& context, const Batch& batch, UnderWay& begun,
                         SavedStore& saved) override;
  void backward_weight(RankContext& context, const Batch& batch, SavedStore& saved) override;
  std::vector<const Parameter*> parameters() const override;
  std::string_view name() const override { return "dispatch"; }

 private:
  MoeConfig moe_;
  ExpertPlace place_;
  int64_t hidden_, block_;
  std::unique_ptr<SharedExpertSegment> beside_;
};

}  // namespace viaduct
