#pragma once
// The third segment of a mixture of experts: the feed-forwards of this rank's experts over their
// rows, up (gate | up) → activation → down, as grouped products. Under recipes that quantize
// products each expert's operands are quantized on their own (ops/grouped_gemm.h), weights once a
// step; operands kept for the backward stay in the format of activations, with the magnitudes that
// their scales were made for.

#include "nn/delayed_scales.h"
#include "nn/moe/expert_terms.h"
#include "nn/moe/moe_edges.h"
#include "ops/activation.h"
#include "ops/grouped_gemm.h"

namespace viaduct {

/// E' experts of this rank, each with this rank's F of its features. Their matrices are stored one
/// after the other in one parameter.
struct ExpertsParts {
  std::shared_ptr<const Parameter> up;    // [E' · F (gated: 2F, gate before up), H]
  std::shared_ptr<const Parameter> down;  // [E' · H, F]
  ActivationKind activation = ActivationKind::silu;
  bool gated = true;
  GateShape shape = {};  // of the gated activation
  /// [E' · F (gated: 2F)] and [E' · H], both or neither; experts are whole then.
  std::shared_ptr<const Parameter> up_bias, down_bias;
  ExpertTerms up_terms = {}, down_terms = {};  // added to the weights
};

class ExpertsSegment final : public Segment {
 public:
  ExpertsSegment(MoeConfig moe, ExpertPlace place, ExpertsParts parts)
      : moe_(std::move(moe)), place_(place), parts_(std::move(parts)) {}

  Edge inputs(const RankContext&, const Batch&) const override;
  std::vector<std::string_view> outputs() const override { return {moe_edge::results}; }
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override;
  std::vector<const Parameter*> parameters() const override;
  std::string_view name() const override { return "experts"; }

 private:
  /// H, and this rank's F.
  int64_t hidden() const { return parts_.up->shape[1]; }
  int64_t features() const { return parts_.down->shape[1]; }
  /// From rows [A, H] to the input [A, F] of `down`; keeps the output of `up`. `raise_unit`: the
  /// same as the unit mlp; `activate_unit`: of that, the activation as the unit moe_act.
  Tensor activate(RankContext& context, const Tensor& raised, SavedStore& saved) const;
  Tensor activate_unit(RankContext& context, const Tensor& raised, SavedStore& saved) const;
  Tensor raise(RankContext& context, const Tensor& rows, const ExpertTerms::Rows& at,
               const Tensor& amax, SavedStore& saved) const;
  Tensor raise_unit(RankContext& context, const Tensor& rows, const ExpertTerms::Rows& at,
                    const Tensor& amax, SavedStore& saved) const;
  /// `amax`: of a, as `amax_of`.
  void product(RankContext& context, GemmForm form, const Parameter& weight, const Tensor& a,
               const Tensor& offsets, const Tensor& out, const Tensor& amax,
               const SavedStore& saved, const Tensor& first_token = {}) const;
  /// Adds what quantization does to the operands of a product to the log of the step, if there is
  /// one.
  void log_operands(RankContext& context, const Parameter& weight,
                    const GroupedGemmArgs& args) const;
  /// Magnitudes f32 [.., E'] of rows [A, ..] of an operand of the products with `weight`
  /// (nn/moe/expert_scales.h), or undefined.
  Tensor amax_of(RankContext& context, const Parameter& weight, LayerOperand operand,
                 const Tensor& rows, const Tensor& offsets, const SavedStore& saved) const;
  /// Those of the rows of a forward, kept for the backward.
  Tensor forward_amax(RankContext& context, const Parameter& weight, const Tensor& rows,
                      const Tensor& offsets, SavedStore& saved) const;
  /// The gradient of the input of `weight` from dy [A, N], whose magnitudes are kept for the weight
  /// gradient.
  void input_gradient(RankContext& context, const Parameter& weight, const Tensor& dy,
                      const Tensor& offsets, const Tensor& first_token, const Tensor& out,
                      SavedStore& saved) const;
  /// f32 [A, 1]: the gradient of the rows' factors (nn/moe/row_factors.h), with several copies of
  /// an expert this rank's part. d_activated and activated [A, F].
  Tensor factor_gradient(RankContext& context, const Tensor& d_activated, const Tensor& activated,
                         const Tensor& d_results, const Tensor& offsets) const;
  /// x [A, N] += the bias of each row's expert; nothing without a bias. The gradient accumulates.
  void add_bias(RankContext& context, const Parameter* bias, const Tensor& x,
                const Tensor& offsets) const;
  void add_bias_gradient(RankContext& context, const Parameter* bias, const Tensor& dy,
                         const Tensor& offsets) const;
  /// Whether the rows that a weight reads and the gradient of its result are read after the data
  /// gradients: the weight is trained, or has terms.
  static bool has_weight_half(const Parameter& weight, const ExpertTerms& terms) {
    return weight.trained || terms.any();
  }
  bool up_has_weight_half() const { return has_weight_half(*parts_.up, parts_.up_terms); }
  bool down_has_weight_half() const { return has_weight_half(*parts_.down, parts_.down_terms); }
  /// (= or +=) the gradient of a weight from dy [A, N] and x [A, K].
  void weight_gradient(RankContext& context, const Parameter& weight, const Tensor& dy,
                       const Tensor& x, const Tensor& offsets, const Tensor& first_token,
                       SavedStore& saved) const;

  MoeConfig moe_;
  ExpertPlace place_;
  ExpertsParts parts_;
};

}  // namespace viaduct
