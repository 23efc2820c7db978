#pragma once
// The second segment of a mixture of experts: rows of tokens to the ranks that hold their experts.
// A communication; on one rank a copy of each token's row for each of its experts. Where tokens are
// gathered, nn/moe/gather_dispatch.h is in its place; where they are sent by domain,
// nn/moe/domain_dispatch.h.

#include <memory>

#include "nn/exchange_segment.h"
#include "nn/moe/moe_edges.h"
#include "nn/moe/shared_experts.h"

namespace viaduct {

class DispatchSegment final : public ExchangeSegment {
 public:
  /// `beside`: the shared expert, which runs here while rows are being exchanged, and its backward
  /// while their gradients are; null: it is a segment of its own, or there is none.
  DispatchSegment(MoeConfig moe, ExpertPlace place, int64_t hidden,
                  std::unique_ptr<SharedExpertSegment> beside = nullptr)
      : moe_(std::move(moe)), place_(place), hidden_(hidden), beside_(std::move(beside)) {}

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
  int64_t hidden_;
  std::unique_ptr<SharedExpertSegment> beside_;
};

}  // namespace viaduct
