#pragma once
// The message that goes ahead of a micro-batch's tensors and says their shapes
// (model.variable_seq_lengths): 8 bytes a dimension.

#include <vector>

#include "comm/communicator.h"
#include "pipeline/stage_program.h"

namespace viaduct {

/// i64 [dimensions of all tensors], one shape after the other, in host memory.
Tensor shape_message(const std::vector<EdgeTensor>& edge);

/// Waits for the shapes of the tensors that `peer` sends next. CommError where they are not those
/// of `edge`, which come from the batch that this stage reads itself.
void receive_shapes(const std::vector<EdgeTensor>& edge, Communicator& pp, int peer, Flow flow);

}  // namespace viaduct
