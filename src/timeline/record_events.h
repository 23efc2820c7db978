#pragma once
// The entries of a record in the order of its positions.

#include <cstdint>
#include <vector>

#include "timeline/record.h"

namespace viaduct {

/// What happened at a position of a record.
enum class RecordEventKind : uint8_t {
  none,  // an entry that the record has dropped
  op,
  allocate,
  release,
  open_scope,
  close_scope,
  host_read,
  launch,    // of a collective or message
  complete,  // its end
  host_call,
  host_call_done,
  edge,  // between streams; it has no position of its own
};

struct RecordEvent {
  RecordEventKind kind = RecordEventKind::none;
  int64_t index = 0;  // of the entry in the record's list of its kind
};

/// By position; without edges.
std::vector<RecordEvent> events_of(const StepRecord& record);

/// Whether an edge lets a stream wait for the operation that is complete then: its end follows
/// right behind the edge.
bool awaits_operation(const StepRecord& record, const std::vector<RecordEvent>& events,
                      const StreamEdgeRecord& edge);

/// The position at which the entry that an event ends (releases, closes, completes) began; of
/// others the event's own.
int64_t begin_of(const StepRecord& record, const RecordEvent& event, int64_t position);

}  // namespace viaduct
