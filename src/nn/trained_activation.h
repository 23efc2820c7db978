#pragma once
// xIELU as a layer: the activation of a feed-forward without a gate, with its two trained slopes
// (ops/xielu.h).

#include <memory>

#include "nn/context.h"
#include "nn/parameter.h"
#include "nn/saved.h"

namespace viaduct {

class TrainedActivation {
 public:
  /// The raw slopes, [1] each: replicated over tensor ranks, each of which has the gradient of its
  /// own features.
  TrainedActivation(std::shared_ptr<const Parameter> alpha_p,
                    std::shared_ptr<const Parameter> alpha_n)
      : alpha_p_(std::move(alpha_p)), alpha_n_(std::move(alpha_n)) {}

  /// activated [T, F] from raised [T, F].
  void forward(RankContext& context, const Tensor& raised, const Tensor& activated) const;
  /// The gradient of raised, in place of it, from d_activated [T, F]; adds those of the slopes.
  void backward(RankContext& context, const Tensor& d_activated, const Tensor& raised) const;
  void append_parameters(std::vector<const Parameter*>& list) const;

 private:
  std::shared_ptr<const Parameter> alpha_p_, alpha_n_;
};

}  // namespace viaduct
