#pragma once
// Presents a record whose log has instances as if they had run: event by event in the order of
// time. Sums and the peak look at each event of the record once, however many instances it has.

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

  /// The events that happen at the positions [begin, end) (`ExpandedEvent::at`), each of the record
  /// once, with the number of times that it does.
  template <class F>
  void for_each_repeated(int64_t begin, int64_t end, F&& f) const {
    Counts counts(events_.size());
    counts.add(begin, end);
    for (const Instance& one : instances_)
      if (one.instance->begin >= begin && one.instance->begin < end) counts.add(one);
    counts.for_each([&](int64_t position, int64_t times) { f(event(position), times); });
  }

  const StepRecord& record() const { return record_; }
  /// As StepRecord::peak of the expanded record; `at` is a position of the record itself.
  StepRecord::Peak peak() const;

 private:
  struct Instance {
    const ActionRecord* instance = nullptr;
    const ActionRecord* recorded_as = nullptr;
  };
  /// How often the events of the record happen, by position.
  class Counts {
   public:
    explicit Counts(size_t events) : changes_(events + 1) {}
    /// Once more at the positions [begin, end).
    void add(int64_t begin, int64_t end) {
      ++changes_[static_cast<size_t>(begin)];
      --changes_[static_cast<size_t>(end)];
    }
    void add(const Instance& one) { add(one.recorded_as->begin, one.recorded_as->end); }
    /// `f` of each position that happens, and how often.
    template <class F>
    void for_each(F&& f) const {
      int64_t times = 0;
      for (size_t at = 0; at + 1 < changes_.size(); ++at)
        if ((times += changes_[at]) > 0) f(static_cast<int64_t>(at), times);
    }

   private:
    std::vector<int64_t> changes_;  // from the position before
  };
  /// What an action adds to the bytes that are held, and the most that it adds meanwhile.
  struct Held {
    int64_t added = 0, most = 0;
    int64_t most_at = -1;  // the first position that has it
  };
  Held held_by(const ActionRecord& action) const;
  const RecordEvent& event(int64_t position) const {
    return events_[static_cast<size_t>(position)];
  }
  /// 1 where memory is allocated, −1 where it is freed, 0 elsewhere.
  static int64_t sign_of(const RecordEvent& event) {
    return (event.kind == RecordEventKind::allocate) - (event.kind == RecordEventKind::release);
  }
  /// Bytes that are allocated at a position.
  int64_t added_at(int64_t position) const {
    const int64_t sign = sign_of(event(position));
    if (sign == 0) return 0;
    return sign * record_.allocations()[static_cast<size_t>(event(position).index)].bytes;
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
