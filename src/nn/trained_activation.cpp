#include "nn/trained_activation.h"

#include "ops/xielu.h"

namespace viaduct {

void TrainedActivation::forward(RankContext& context, const Tensor& raised,
                                const Tensor& activated) const {
  const AcquiredWeight alpha_p(context.weights, *alpha_p_, WeightUse::elementwise),
      alpha_n(context.weights, *alpha_n_, WeightUse::elementwise);
  xielu_forward(context.ops, {raised, activated, alpha_p.tensor(), alpha_n.tensor()});
}

void TrainedActivation::backward(RankContext& context, const Tensor& d_activated,
                                 const Tensor& raised) const {
  const AcquiredWeight alpha_p(context.weights, *alpha_p_, WeightUse::elementwise),
      alpha_n(context.weights, *alpha_n_, WeightUse::elementwise);
  XieluBackwardArgs args{d_activated, raised, raised, alpha_p.tensor(), alpha_n.tensor(), {}, {}};
  if (alpha_p_->trained) {
    args.d_alpha_p = context.gradients->gradient(*alpha_p_).tensor;
    args.d_alpha_n = context.gradients->gradient(*alpha_n_).tensor;
  }
  xielu_backward(context.ops, args);
  if (!alpha_p_->trained) return;
  context.gradients->done(*alpha_p_);
  context.gradients->done(*alpha_n_);
}

void TrainedActivation::append_parameters(std::vector<const Parameter*>& list) const {
  list.push_back(alpha_p_.get());
  list.push_back(alpha_n_.get());
}

}  // namespace viaduct
