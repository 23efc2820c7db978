#pragma once
// A forward through all pipeline stages, one after the other, for one micro-batch at a time:
// evaluation and the activations of `probe`, where nothing has to overlap.

#include "base/function_ref.h"
#include "comm/communicator.h"
#include "nn/segment.h"

namespace viaduct {

/// Calls `forward(chunk, in)` for each of this rank's `chunks` model chunks in order. `in` is empty
/// for the first virtual stage, else what the one before returned, received into `make_input()`
/// (an uninitialised tensor of the residual stream). Every rank of `pp` calls it.
void forward_through_stages(Communicator& pp, size_t chunks, FunctionRef<Tensor()> make_input,
                            FunctionRef<TensorSet(size_t chunk, const TensorSet& in)> forward);

}  // namespace viaduct
