#pragma once
// Launches of attention that cuDNN computes (ops/cuda/library_attention.h).

#include "ops/cuda/library_attention.h"
#include "ops/dispatch.h"

namespace viaduct::cuda {

/// Whether the choice is cuDNN's; `choice.plan` is then LibraryCalls.
bool is_library(const Choice& choice);

void launch_library_forward(OpContext& context, const LibraryCalls& calls,
                            const AttentionForwardArgs& args, void* workspace);
void launch_library_backward(OpContext& context, const LibraryCalls& calls,
                             const AttentionBackwardArgs& args, void* workspace);

}  // namespace viaduct::cuda
