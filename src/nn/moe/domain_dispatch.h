#pragma once
// Dispatch by domain (ExpertPlace::by_domain): tokens, choices and probabilities to each domain
// with one of a token's experts, and from the rank that gets them there rows to those of the
// domain.

#include <memory>

#include "nn/moe/moe_edges.h"
#include "nn/moe/shared_experts.h"

namespace viaduct {

class DomainDispatchSegment final : public Segment {
 public:
  /// `beside`: as in DispatchSegment, while tokens are under way between domains.
  DomainDispatchSegment(MoeConfig moe, ExpertPlace place, int64_t hidden,
                        std::unique_ptr<SharedExpertSegment> beside = nullptr)
      : moe_(std::move(moe)), place_(place), hidden_(hidden), beside_(std::move(beside)) {}

  Edge inputs(const RankContext& context, const Batch& batch) const override;
  std::vector<std::string_view> outputs() const override;
  TensorSet forward(RankContext& context, const Batch& batch, const TensorSet& in,
                    SavedStore& saved) override;
  TensorSet backward_input(RankContext& context, const Batch& batch, const TensorSet& d_out,
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
