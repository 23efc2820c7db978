#pragma once
// The expert of a mixture that every token uses: up (gate | up) → activation → down, times a gate
// of its own if there is one. It reads the tokens of the router. It is a segment before they are
// sent, or runs inside dispatch while they are being exchanged.

#include <memory>
#include <optional>

#include "nn/linear.h"
#include "nn/moe/moe_edges.h"
#include "nn/moe/router_product.h"
#include "ops/activation.h"

namespace viaduct {

struct SharedExpertParts {
  Linear up, down;
  ActivationKind activation = ActivationKind::silu;
  bool gated = true;
  std::optional<RouterProduct> gate;  // of the whole result: a router to one expert
};

class SharedExpertSegment final : public Segment {
 public:
  SharedExpertSegment(MoeConfig moe, ExpertPlace place, int64_t hidden, SharedExpertParts parts)
      : moe_(std::move(moe)), place_(place), hidden_(hidden), parts_(std::move(parts)) {}

  Edge inputs(const RankContext&, const Batch&) const override;
  std::vector<std::string_view> outputs() const override {
    return {moe_edge::tokens, moe_edge::shared};
  }
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override;
  std::vector<const Parameter*> parameters() const override;
  std::string_view name() const override { return "shared_experts"; }

  /// backward_input in two parts, of which the first needs no gradient of the tokens that it
  /// passes on.
  struct OwnGradient {
    Tensor d_tokens;       // [T, H], through up and down
    Tensor d_gate_logits;  // [T, 1]; undefined without a gate
  };
  OwnGradient begin_backward(RankContext& context, const Tensor& d_shared, SavedStore& saved);
  /// `d_passed` + the gradients of gate and products, a new tensor.
  Tensor finish_backward(RankContext& context, const OwnGradient& own, const Tensor& d_passed,
                         SavedStore& saved);

 private:
  /// From tokens [T, H] to the input [T, F] of `down`, or with a gate to the result [T, H] that the
  /// gate multiplies; `inside_unit`: the same as the unit shared_experts.
  Tensor inside(RankContext& context, const Tensor& tokens, SavedStore& saved) const;
  Tensor inside_unit(RankContext& context, const Tensor& tokens, SavedStore& saved) const;
  /// `result` [T, H] times the sigmoid of each token's logit; undefined where it is not read.
  Tensor weigh(RankContext& context, const Tensor& tokens, const Tensor& result,
               SavedStore& saved) const;
  /// The gradient of `result`, and that of the gate's logits.
  Tensor weigh_backward(RankContext& context, const Tensor& d_shared, Tensor& d_logits,
                        SavedStore& saved) const;

  MoeConfig moe_;
  ExpertPlace place_;
  int64_t hidden_;
  SharedExpertParts parts_;
};

}  // namespace viaduct
