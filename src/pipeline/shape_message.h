#pragma once
// Messages that go ahead of tensors and say their shapes (model.variable_seq_lengths): 8 bytes a
// dimension. What a stage receives it compares with the batch that it reads itself.

#include "pipeline/action.h"
#include "pipeline/stage_program.h"

namespace viaduct {

/// i64 [dimensions of all tensors], one shape after the other, in host memory.
Tensor shape_message(const Edge& tensors);

/// Waits for the shapes of the tensors that `peer` sends next. CommError where they are not those
/// of `tensors`.
void receive_shapes(const Edge& tensors, Communicator& pp, int peer, Flow flow);

/// The shapes of all messages that `actions` post, in one message for each neighbour, direction and
/// flow: ahead of the first of them, so that every receive can be posted as early as the schedule
/// wants. Every stage calls it. CommError as receive_shapes.
void exchange_shapes(const ActionList& actions, StageProgram& program, Communicator& pp);

}  // namespace viaduct
