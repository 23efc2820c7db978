#pragma once
// Dispatch where tokens are gathered (ExpertDispatch::all_gather): tokens, choices and
// probabilities of all ranks to every rank, and from them the rows of its own experts. The backward
// sums the gradients of tokens and probabilities over the ranks.

#include "nn/moe/moe_edges.h"

namespace viaduct {

class GatherDispatchSegment final : public Segment {
 public:
  GatherDispatchSegment(MoeConfig moe, ExpertPlace place, int64_t hidden)
      : moe_(std::move(moe)), place_(place), hidden_(hidden) {}

  Edge inputs(const RankContext&, const Batch&) const override;
  std::vector<std::string_view> outputs() const override;
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override {}
  std::vector<const Parameter*> parameters() const override { return {}; }
  std::string_view name() const override { return "dispatch"; }

 private:
  MoeConfig moe_;
  ExpertPlace place_;
  int64_t hidden_;
};

}  // namespace viaduct
