#pragma once
// Experts whose input is weighted, and not their result (Llama 4): between the router and the
// dispatch, tokens become p · tokens, p the weight of a token's only expert, and the weights with
// which results are summed become 1. Letters as in nn/moe/moe_edges.h; k is 1.

#include "nn/moe/moe_edges.h"

namespace viaduct {

class InputWeightSegment final : public Segment {
 public:
  InputWeightSegment(MoeConfig moe, ExpertPlace place, int64_t hidden)
      : moe_(std::move(moe)), place_(place), hidden_(hidden) {}

  Edge inputs(const RankContext& context, const Batch& batch) const override;
  std::vector<std::string_view> outputs() const override {
    return {moe_edge::tokens, moe_edge::probabilities};
  }
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override {}
  std::vector<const Parameter*> parameters() const override { return {}; }
  std::string_view name() const override { return "input_weight"; }

 private:
  MoeConfig moe_;
  ExpertPlace place_;
  int64_t hidden_;
};

}  // namespace viaduct
