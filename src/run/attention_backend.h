#pragma once
// What model.attention_backend = auto means for a run.

#include <string>

#include "model/model_fields.h"

namespace viaduct {

struct RunConfig;

struct AttentionChoice {
  AttentionBackend backend = AttentionBackend::flash;
  /// Why it is not cuDNN on a GPU on which that would be taken; else empty.
  std::string reason = {};
};

/// Whether the run computes on the GPU of the calling thread: not so in plans for another GPU.
/// Before `resolve`, which sets the target.
bool uses_this_gpu(const RunConfig& config);

/// cuDNN (fused) for GPUs of compute capability 9.0 or newer, if it is there and computes attention
/// of the model with the run's activations and row length; else flash. Needs resolved fields of the
/// model and the run's target. `on_this_gpu`: cuDNN is loaded to see whether it can be used;
/// otherwise it counts as found.
AttentionChoice automatic_attention(const RunConfig& config, bool on_this_gpu);

}  // namespace viaduct
