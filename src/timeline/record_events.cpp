#include "timeline/record_events.h"

namespace viaduct {

std::vector<RecordEvent> events_of(const StepRecord& record) {
  using Kind = RecordEventKind;
  std::vector<RecordEvent> events(static_cast<size_t>(record.position()));
  const auto put = [&](int64_t position, Kind kind, size_t index) {
    if (position >= 0) events[static_cast<size_t>(position)] = {kind, static_cast<int64_t>(index)};
  };
  for (size_t i = 0; i < record.ops().size(); ++i) put(record.ops()[i].at, Kind::op, i);
  for (size_t i = 0; i < record.allocations().size(); ++i) {
    put(record.allocations()[i].allocated_at, Kind::allocate, i);
    put(record.allocations()[i].released_at, Kind::release, i);
  }
  for (size_t i = 0; i < record.scopes().size(); ++i) {
    put(record.scopes()[i].begin_at, Kind::open_scope, i);
    put(record.scopes()[i].end_at, Kind::close_scope, i);
  }
  for (size_t i = 0; i < record.host_reads().size(); ++i)
    put(record.host_reads()[i].at, Kind::host_read, i);
  for (size_t i = 0; i < record.collectives().size(); ++i) {
    put(record.collectives()[i].launched_at, Kind::launch, i);
    put(record.collectives()[i].completed_at, Kind::complete, i);
  }
  for (size_t i = 0; i < record.host_calls().size(); ++i) {
    put(record.host_calls()[i].posted_at, Kind::host_call, i);
    put(record.host_calls()[i].wait_at, Kind::host_call_done, i);
  }
  return events;
}

int64_t begin_of(const StepRecord& record, const RecordEvent& event, int64_t position) {
  const auto index = static_cast<size_t>(event.index);
  switch (event.kind) {
    case RecordEventKind::release:
      return record.allocations()[index].allocated_at;
    case RecordEventKind::close_scope:
      return record.scopes()[index].begin_at;
    case RecordEventKind::complete:
      return record.collectives()[index].launched_at;
    case RecordEventKind::host_call_done:
      return record.host_calls()[index].posted_at;
    default:
      return position;
  }
}

}  // namespace viaduct
