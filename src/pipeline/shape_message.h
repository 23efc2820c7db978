#pragma once
// Messages with the shapes of the tensors that follow (model.variable_seq_lengths): 8 bytes a
// dimension. The receiver compares them with its own batch.

#include "pipeline/action.h"
#include "pipeline/stage_program.h"

namespace viaduct {

/// i64 [dimensions of all tensors], one shape after the other, in host memory.
Tensor shape_message(const Edge& tensors);

/// Waits for the shapes of the tensors that `peer` sends next. CommError if they differ from those
/// of `tensors`.
void receive_shapes(const Edge& tensors, Communicator& pp, int peer, Flow flow);

/// The shapes of all messages that `actions` post, in one message for each neighbour, direction and
/// flow: before the first of them, so that every receive can be posted as early as the schedule
/// requires. Every stage calls it. CommError as receive_shapes.
void exchange_shapes(const ActionList& actions, StageProgram& program, Communicator& pp);

}  // namespace viaduct
