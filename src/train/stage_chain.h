#pragma once
// A forward through all pipeline stages, one after the other, for one micro-batch at a time:
// evaluation and the activations of `probe`, where nothing has to overlap.

#include "base/function_ref.h"
#include "pipeline/stage_program.h"

namespace viaduct {

/// What goes from stage to stage.
struct StageEdge {
  EdgeTensor tensor;          // the residual stream in the format of messages
  bool shapes_first = false;  // its shape goes ahead of it
};

/// Calls `forward(chunk, in)` for each of this rank's `chunks` model chunks in order. `in` is empty
/// for the first virtual stage, else what the one before returned, received into `make_input()`
/// (an uninitialised tensor as `edge` says). Every rank of `pp` calls it.
void forward_through_stages(Communicator& pp, size_t chunks, const StageEdge& edge,
                            FunctionRef<Tensor()> make_input,
                            FunctionRef<TensorSet(size_t chunk, const TensorSet& in)> forward);

}  // namespace viaduct
