#pragma once
// The feed-forward segment of a transformer block: (norm) → up (gate | up) → activation → down →
// (norm) → dropout → +.

#include <optional>

#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/residual.h"
#include "nn/segment.h"
#include "nn/trained_activation.h"
#include "ops/activation.h"

namespace viaduct {

/// The layers of the segment. With a gate, the up weight has rows [F gate | F up].
struct MlpParts {
  std::optional<Norm> input_norm;  // absent: the layers read the stream (OLMo 2)
  Linear up;
  ActivationKind activation = ActivationKind::silu;
  bool gated = true;
  Linear down;
  std::optional<Norm> output_norm;  // on the branch, before the residual (Gemma 2)
  ResidualDropout residual;
  /// In place of `activation` (xIELU); not gated.
  std::optional<TrainedActivation> trained = {};
};

class MlpSegment final : public StreamSegment {
 public:
  explicit MlpSegment(MlpParts parts) : parts_(std::move(parts)) {}

  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override;
  std::vector<const Parameter*> parameters() const override;
  std::string_view name() const override { return "mlp"; }

  // The same in pieces, as those of AttentionSegment.

  LinearInput begin(RankContext& context, const Tensor& stream, SavedStore& saved) const;
  bool has_input_norm() const { return parts_.input_norm.has_value(); }
  Tensor add_branch(RankContext& context, const Batch& batch, LinearInput normed,
                    const Tensor& stream, SavedStore& saved, MemoryTag tag) const;
  Tensor branch_gradient(RankContext& context, const Batch& batch, const Tensor& d_stream,
                         SavedStore& saved) const;
  Tensor begin_gradient(RankContext& context, const Tensor& d_normed, const Tensor& d_stream,
                        SavedStore& saved) const;

 private:
  int64_t features() const override { return parts_.down.weight()->shape[0]; }
  /// From the input [T, H] of `up` to the input [T, F] of `down`, and `forms` of that; keeps what
  /// `lower` reads. `raise_unit`: the same as the unit mlp.
  Tensor raise(RankContext& context, const Batch& batch, LinearInput normed, SavedStore& saved,
               const ProducedForms& forms = {}) const;
  Tensor raise_unit(RankContext& context, const Batch& batch, LinearInput normed, SavedStore& saved,
                    const ProducedForms& forms) const;
  /// Those that `raise` makes of its result.
  ProducedForms allocate_activated_forms(const RankContext& context, const Batch& batch) const;
  /// The gradient of the output of `up`, from the gradient of the output of `down`.
  Tensor lower(RankContext& context, const Tensor& d_branch, SavedStore& saved) const;
  /// `raise` and `lower` without epilogues: from the output of `up` to the input of `down`; and the
  /// gradient of that output, in place.
  Tensor activate(RankContext& context, const Tensor& raised, SavedStore& saved,
                  const ProducedForms& forms) const;
  Tensor deactivate(RankContext& context, const Tensor& d_activated, SavedStore& saved) const;
  /// The activation as an epilogue of the GEMM, with `activated` or `raised` not set.
  GemmEpilogue epilogue() const;
  /// The activation is the epilogue of the product with `up`.
  bool activates_in_product(const RankContext& context) const {
    return !parts_.trained && parts_.up.takes_epilogue(context);
  }
  /// The gate's activation and the product with it are separate ops.
  bool gates_apart(const RankContext& context) const {
    return parts_.gated && !context.settings.fusions.bias_activation;
  }

  MlpParts parts_;
};

}  // namespace viaduct
