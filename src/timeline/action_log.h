#pragma once
// Which positions of a record belong to which action of a pipeline schedule, and which actions are
// not in it because another micro-batch does the same. A dry run writes it along with its record.

#include <cstdint>
#include <utility>
#include <vector>

namespace viaduct {

/// An action of a micro-batch: a forward, a message that is posted …
struct ActionRecord {
  int64_t micro_batch = 0;
  /// The micro-batch whose action of the same number is in the record; itself: this one ran. The
  /// others are its *instances*.
  int64_t recorded_as = 0;
  int64_t number = 0;  // among the actions of its micro-batch in the step
  /// Positions in the record, the second one not included. Of an instance both are the place at
  /// which it would have run.
  int64_t begin = 0, end = 0;
  /// The same, of the calls of streams (StepRecord::stream_calls).
  int64_t calls_begin = 0, calls_end = 0;

  bool ran() const { return recorded_as == micro_batch; }
};

/// The actions of a step.
struct StepActions {
  std::vector<ActionRecord> actions;  // in the order of the schedule
  /// Two micro-batches that ran. The second one is recorded for others, which is right only if it
  /// does what the first one did.
  std::vector<std::pair<int64_t, int64_t>> alike;
};

/// Of the steps of a record, in their order.
using ActionLog = std::vector<StepActions>;

/// Whether the record lacks anything.
inline bool has_instances(const ActionLog& log) {
  for (const StepActions& step : log)
    if (!step.alike.empty()) return true;
  return false;
}

}  // namespace viaduct
