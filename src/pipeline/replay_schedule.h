#pragma once
// Simulates a schedule: the times of all computations, with the given durations and instantaneous
// messages. A send completes only when its receive is posted (rendezvous), and each queue of
// messages is first in, first out, so a schedule that deadlocks on any transport deadlocks here.

#include "pipeline/schedule.h"

namespace viaduct {

struct ComputeTimes {
  double forward = 1, backward_input = 1, backward_weight = 1;
  double last_segment_weight = 1;  // that part of backward_weight
  /// Of a stage in front, which has one chunk, over those of all chunks of another stage.
  double front = 1;
};

/// A computation in time.
struct Span {
  size_t action = 0;  // index into the stage's list
  double begin = 0, end = 0;
};

struct ScheduleTimes {
  std::vector<std::vector<Span>> stages;  // by stage, in order
  double end = 0;                         // when the last stage is done
  /// Time that a stage computes; the same for all.
  double busy = 0;
  /// Idle time of a stage over its busy time: (pp − 1) / (virtual stages · micro-batches) for 1F1B.
  double bubble_fraction() const { return (end - busy) / busy; }
};

/// Which messages of two stages share a queue. A message begins when the ones before it in its
/// queue are complete, at both ends.
enum class MessageQueues {
  per_flow_and_direction,  // as in communicators (comm_queue)
  per_pair,                // all messages between two stages in one
};

/// CommError listing what each stage waits for if the schedule deadlocks.
ScheduleTimes replay_schedule(const Schedule& schedule, const ComputeTimes& times = {},
                              MessageQueues queues = MessageQueues::per_flow_and_direction);

}  // namespace viaduct
