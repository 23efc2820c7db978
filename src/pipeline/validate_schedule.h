#pragma once
// Proves that a schedule can be run, whatever made it: nothing deadlocks, every message has its
// other end, everything is computed once and after what it needs.

#include "pipeline/replay_schedule.h"
#include "pipeline/schedule.h"

namespace viaduct {

/// What a stage holds at most at one time.
struct StageHolds {
  /// Saved stores: (micro-batch, chunk) pairs between the forward and the end of the backward.
  int64_t stores = 0;
  /// Those of which nothing is left but what the weight halves of some segments need (of the head:
  /// normed tokens and gradients of logits).
  int64_t parts = 0;
  /// Buffers of messages: receives from their post to their use, sends from post to wait.
  int64_t buffers = 0;
};

/// Assumes rendezvous sends and one first-in-first-out queue for the messages that share one in
/// `queues`: a schedule that needs more of them than there are deadlocks. CommError that names
/// stage and action if the schedule deadlocks, a send and the receive of equal number are not of
/// the same micro-batch and edge, ranges of segments do not tile their chunk, an action comes
/// before what it needs or twice, or something is missing.
std::vector<StageHolds> validate_schedule(
    const Schedule& schedule, MessageQueues queues = MessageQueues::per_flow_and_direction);

}  // namespace viaduct
