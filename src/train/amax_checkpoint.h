#pragma once
// The state of delayed scaling in checkpoints: for each operand of a layer's products a tensor
// "fp8_amax/PATH/OPERAND", f32 [1 + L], with the chosen amax and the history, latest step first.
// Ranks of a stage have the same, and one of them saves it.

#include "checkpoint/async_saver.h"
#include "checkpoint/tensor_source.h"
#include "engine/engine.h"

namespace viaduct {

/// Adds what this rank saves of the engine's delayed scales. Every rank calls it.
void stage_amax(Engine& engine, StagedCheckpoint& staged);

/// Reads the existing ones of the engine's tensors; others begin as in a new run. A history of
/// another length is cut, or continues to grow. IoError if one has another shape or type.
void restore_amax(Engine& engine, const TensorSource& source);

}  // namespace viaduct
