#pragma once
// The launches of activations, which products have as epilogues.

#include "ops/cuda/launch/launch_args.h"

namespace viaduct::cuda {

void launch_activation(OpContext& context, const Choice&, const ActivationForwardArgs& args, void*);
void launch_activation_backward(OpContext& context, const Choice&,
                                const ActivationBackwardArgs& args, void*);

}  // namespace viaduct::cuda
