#pragma once
// The second segment of a mixture of experts: rows of tokens to the ranks that hold their experts.
// A communication; on one rank a copy of each token's row for each of its experts. Where tokens are
// gathered, nn/moe/gather_dispatch.h is in its place; where they are sent by domain,
// nn/moe/domain_dispatch.h.

#include "nn/moe/expert_exchange.h"

namespace viaduct {

class DispatchSegment final : public DispatchExchange {
 public:
  using DispatchExchange::DispatchExchange;

  Begun begin_forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet end_forward(RankContext&, const Batch&, UnderWay& begun, SavedStore&) override;
  Begun begin_backward(RankContext&, const Batch&, const TensorSet& d_out, SavedStore&) override;
  TensorSet end_backward(RankContext&, const Batch&, UnderWay& begun, SavedStore&) override;
};

}  // namespace viaduct
