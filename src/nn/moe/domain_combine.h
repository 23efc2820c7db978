#pragma once
// Combine by domain (ExpertPlace::by_domain): results go to the rank of their domain that made rows
// of the token, which sums them by the router's probabilities; the sums go to the token's rank,
// which adds them (and the shared expert's result) → dropout → +. The exchange between domains is
// under way between its two parts, as in nn/moe/domain_dispatch.h.

#include "nn/moe/expert_exchange.h"

namespace viaduct {

class DomainCombineSegment final : public CombineExchange {
 public:
  using CombineExchange::CombineExchange;

  Begun begin_forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet end_forward(RankContext&, const Batch&, UnderWay& begun, SavedStore&) override;
  Begun begin_backward(RankContext&, const Batch&, const TensorSet& d_out, SavedStore&) override;
  TensorSet end_backward(RankContext&, const Batch&, UnderWay& begun, SavedStore&) override;
};

}  // namespace viaduct
