#pragma once
// Proves that a schedule is valid, whatever made it: no deadlock, every message has both ends, and
// every action runs once and after its inputs.

#include "pipeline/replay_schedule.h"
#include "pipeline/schedule.h"

namespace viaduct {

/// The maximum that a stage holds at any time.
struct StageHolds {
  /// Saved stores: (micro-batch, chunk) pairs between the forward and the end of the backward.
  int64_t stores = 0;
  /// Saved stores reduced to what the weight halves of some segments need (of the head: normed
  /// tokens and gradients of logits).
  int64_t parts = 0;
  /// Buffers of messages: receives from their post to their use, sends from post to wait.
  int64_t buffers = 0;
};

/// Assumes rendezvous sends and one first-in-first-out queue for the messages that share one in
/// `queues`: a schedule that needs more queues deadlocks. CommError that names stage and action if
/// the schedule deadlocks, a send and the receive of equal number are not of the same micro-batch
/// and edge, ranges of segments do not tile their chunk, an action comes before its inputs or
/// twice, or an action is missing.
std::vector<StageHolds> validate_schedule(
    const Schedule& schedule, MessageQueues queues = MessageQueues::per_flow_and_direction);

}  // namespace viaduct
