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
};

struct RecordEvent {
  RecordEventKind kind = RecordEventKind::none;
  int64_t index = 0;  // of the entry in the record's list of its kind
};

/// By position.
std::vector<RecordEvent> events_of(const StepRecord& record);

/// The position at which the entry that an event ends (releases, closes, completes) began; of
/// others the event's own.
int64_t begin_of(const StepRecord& record, const RecordEvent& event, int64_t position);

}  // namespace viaduct
