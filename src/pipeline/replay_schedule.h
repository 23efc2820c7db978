#pragma once
// Runs a schedule in thought: which stage does what when, if computations take the given times and
// messages none. A send completes only when its receive is posted (rendezvous), so what deadlocks
// anywhere deadlocks here.

#include "pipeline/schedule.h"

namespace viaduct {

struct ComputeTimes {
  double forward = 1, backward_input = 1, backward_weight = 1;
  double last_segment_weight = 1;  // that part of backward_weight
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

/// CommError that says what each stage waits for if the schedule stands still.
ScheduleTimes replay_schedule(const Schedule& schedule, const ComputeTimes& times = {});

}  // namespace viaduct
