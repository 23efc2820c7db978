#pragma once
// Dispatch by domain (ExpertPlace::by_domain): tokens, choices and probabilities go to each domain
// with one of a token's experts; the rank that gets them there sends rows to the ranks of its
// domain. The exchange between domains, over the slower links, is under way between its two parts;
// exchanges inside a domain are waited for.

#include "nn/moe/expert_exchange.h"

namespace viaduct {

class DomainDispatchSegment final : public DispatchExchange {
 public:
  /// `block`: global number of the layer.
  DomainDispatchSegment(MoeConfig moe, ExpertPlace place, int64_t hidden, int64_t block,
                        std::unique_ptr<SharedExpertSegment> beside)
      : DispatchExchange(std::move(moe), place, hidden, std::move(beside)), block_(block) {}

  Begun begin_forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet end_forward(RankContext&, const Batch&, UnderWay& begun, SavedStore&) override;
  Begun begin_backward(RankContext&, const Batch&, const TensorSet& d_out, SavedStore&) override;
  TensorSet end_backward(RankContext&, const Batch&, UnderWay& begun, SavedStore&) override;

 private:
  int64_t block_;
};

}  // namespace viaduct
