#pragma once
// Presents a record whose log has instances as if they had run: event by event in the order of
// time.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "timeline/action_log.h"
#include "timeline/record_events.h"

namespace viaduct {

/// An event of the expanded step.
struct ExpandedEvent {
  RecordEvent event;     // of the record
  int64_t position = 0;  // of it in the record
  /// Where it happens, as a position of the record. Events of an instance have the position that
  /// the instance would have run at.
  int64_t at = 0;
  const ActionRecord* instance = nullptr;  // that it belongs to; null: it is in the record itself
};

/// All events, also those that are not in the record because they repeat others.
class RecordExpansion {
 public:
  /// Both outlive it and do not change meanwhile; against_repeats(record, log) finds nothing.
  RecordExpansion(const StepRecord& record, const ActionLog& log);

  template <class F>
  void for_each(F&& f) const {
    go_through(
        f, [](const ActionRecord&, const ActionRecord&) {}, [] {});
  }
  /// The same, with calls before the events of an instance (with the instance and the action that
  /// stands for it) and after them.
  template <class F, class Enter, class Leave>
  void go_through(F&& f, Enter&& enter, Leave&& leave) const {
    auto next = instances_.begin();
    for (int64_t at = 0; at < static_cast<int64_t>(events_.size()); ++at) {
      for (; next != instances_.end() && next->instance->begin == at; ++next) {
        enter(*next->instance, *next->recorded_as);
        for (int64_t p = next->recorded_as->begin; p < next->recorded_as->end; ++p)
          f(ExpandedEvent{event(p), p, at, next->instance});
        leave();
      }
      f(ExpandedEvent{event(at), at, at});
    }
  }

  const StepRecord& record() const { return record_; }
  /// As StepRecord::peak of the expanded record; `at` is a position of the record itself.
  StepRecord::Peak peak() const;

 private:
  struct Instance {
    const ActionRecord* instance = nullptr;
    const ActionRecord* recorded_as = nullptr;
  };
  const RecordEvent& event(int64_t position) const {
    return events_[static_cast<size_t>(position)];
  }
  /// 1 where memory is allocated, −1 where it is freed, 0 elsewhere.
  static int64_t taken_at(const ExpandedEvent& e) {
    return (e.event.kind == RecordEventKind::allocate) - (e.event.kind == RecordEventKind::release);
  }
  const AllocationRecord& allocation_of(const ExpandedEvent& e) const {
    return record_.allocations()[static_cast<size_t>(e.event.index)];
  }

  const StepRecord& record_;
  std::vector<RecordEvent> events_;
  std::vector<Instance> instances_;  // in order
};

struct ExpandedRecord {
  StepRecord record;
  /// Why an instance would have given streams other work than the action that stands for it, if it
  /// would: then the record is not that of the step.
  std::optional<std::string> against;
  /// By position of the record that was expanded: the position of the same event, or of the
  /// instances right before it. One more than there are positions: the last one is the end.
  std::vector<int64_t> positions;
};

/// The record that a run without instances makes: the same entries, positions, numbers of
/// allocations, sequences of groups, places in streams and edges between them. The record has its
/// stream calls.
ExpandedRecord expanded(const RecordExpansion& expansion);

}  // namespace viaduct
