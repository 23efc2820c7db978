#pragma once
// The device block of scalars that change from step to step. Ops read them from device memory, so a
// step never branches on host values and can be captured as a graph.

#include "tensor/tensor.h"

namespace viaduct {

/// Slots of the block, each one f64.
enum class StepScalar : int {
  learning_rate,
  decoupled_learning_rate,  // of embedding and output layer, if they have their own
  weight_decay_factor,      // multiplies the decay of groups with decay
  bias_correction1,         // 1 − β1^t
  bias_correction2,         // 1 − β2^t
  update,                   // t, the number of this update, from 1; skipped ones do not count
  loss_scale,               // multiplies the loss gradient before the backward
  router_loss_scale,        // multiplies the gradients of routers' own losses, sums over tokens
  gradient_factor,  // 1 / (scored tokens · loss scale): turns accumulated main gradients into the
                    // gradient of the mean
  clip_norm,        // limit of the gradient norm; 0: none
  // Written by ops:
  loss_sum,       // sum of the weighted token losses of the step
  gradient_norm,  // of the gradient of the mean, before clipping
  clip_factor,  // gradient_factor · min(1, clip_norm / (norm + 1e-6)): what AdamW multiplies main
                // gradients by
  skip,  // 1: the update is skipped (a gradient is not finite); ops leave weights and moments as
         // they are
};
inline constexpr int kStepScalars = 14;

/// View of one slot of the block (f64 [kStepScalars]) as f64 [1].
inline Tensor step_scalar(const Tensor& block, StepScalar slot) {
  return block.slice(0, static_cast<int64_t>(slot), 1);
}

}  // namespace viaduct
