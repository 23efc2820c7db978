#pragma once
// Runs a stage's part of a schedule, on any device and communicator.

#include "pipeline/action_follower.h"
#include "pipeline/stage_peers.h"
#include "pipeline/stage_program.h"

namespace viaduct {

struct ExecutorSettings {
  /// An activation is freed once it is sent; otherwise it is held until its backward
  /// (deallocate_pipeline_outputs).
  bool deallocate_outputs = true;
  /// Shapes of all messages are sent before the first one (variable_seq_lengths).
  bool shapes_first = false;
};

/// Does `actions` in order. `peers`: whom the stage sends to. Messages of an edge with several
/// tensors are that many sends. CommError if an action lacks its input
/// (validate_schedule rejects such a schedule), or from the communicators. `follower`: may be null.
void run_schedule(const ActionList& actions, StageProgram& program, const StagePeers& peers,
                  const ExecutorSettings& settings = {}, ActionFollower* follower = nullptr);

}  // namespace viaduct
