#include "timeline/record_expansion.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "timeline/instance_values.h"
#include "timeline/messages.h"
#include "timeline/stream_replay.h"

namespace viaduct {

RecordExpansion::RecordExpansion(const StepRecord& record, const ActionLog& log)
    : record_(record), events_(events_of(record)) {
  for (const StepActions& step : log) {
    std::map<std::pair<int64_t, int64_t>, const ActionRecord*> ran;  // by micro-batch and number
    for (const ActionRecord& action : step.actions)
      if (action.ran()) ran[{action.micro_batch, action.number}] = &action;
    for (const ActionRecord& action : step.actions) {
      if (action.ran()) continue;
      instances_.push_back({&action, ran.at({action.recorded_as, action.number})});
    }
  }
}

RecordExpansion::Held RecordExpansion::held_by(const ActionRecord& action) const {
  Held held;
  for (int64_t position = action.begin; position < action.end; ++position) {
    held.added += added_at(position);
    if (held.added > held.most) held.most = held.added, held.most_at = position;
  }
  return held;
}

StepRecord::Peak RecordExpansion::peak() const {
  StepRecord::Peak peak;
  std::map<const ActionRecord*, Held> held_by_actions;  // that stand for others
  for (const Instance& one : instances_)
    if (const auto [action, is_new] = held_by_actions.try_emplace(one.recorded_as); is_new)
      action->second = held_by(*one.recorded_as);
  int64_t bytes = 0, most_at = -1;
  const Instance* within = nullptr;  // the instance of the peak; null: none
  const auto reach = [&](int64_t most, int64_t at, int64_t position, const Instance* instance) {
    if (most <= peak.bytes) return;
    peak.bytes = most, peak.at = at, most_at = position, within = instance;
  };
  auto next = instances_.begin();
  for (int64_t at = 0; at < static_cast<int64_t>(events_.size()); ++at) {
    for (; next != instances_.end() && next->instance->begin == at; ++next) {
      const Held& held = held_by_actions.at(next->recorded_as);
      reach(bytes + held.most, at, held.most_at, &*next);
      bytes += held.added;
    }
    bytes += added_at(at);
    reach(bytes, at, at, nullptr);
  }
  if (peak.bytes == 0) return peak;
  // What happened until then, the event at the peak included.
  Counts counts(events_.size());
  counts.add(0, within == nullptr ? most_at + 1 : peak.at);
  if (within != nullptr) counts.add(within->recorded_as->begin, most_at + 1);
  for (const Instance& one : instances_) {
    if (&one == within || one.instance->begin > peak.at) break;
    counts.add(one);
  }
  std::vector<int64_t> held(record_.allocations().size());  // how many of each
  counts.for_each([&](int64_t position, int64_t times) {
    if (const int64_t sign = sign_of(event(position)); sign != 0)
      held[static_cast<size_t>(event(position).index)] += sign * times;
  });
  for (size_t i = 0; i < held.size(); ++i) {
    const AllocationRecord& a = record_.allocations()[i];
    if (held[i] > 0) peak.bytes_by_tag[std::string(a.tag)] += held[i] * a.bytes;
  }
  return peak;
}

namespace {

/// Appends the events of an expansion to a new record, with the numbers that a run counts up.
class Replay {
 public:
  explicit Replay(const RecordExpansion& expansion) : Replay(expansion.record()) {
    StepRecord::Room room;
    expansion.for_each([&](const ExpandedEvent& e) {
      room.ops += e.event.kind == RecordEventKind::op;
      room.allocations += e.event.kind == RecordEventKind::allocate;
      room.collectives += e.event.kind == RecordEventKind::launch;
      room.scopes += e.event.kind == RecordEventKind::open_scope;
    });
    to_.reserve(room);
  }

  int64_t position() const { return to_.position(); }
  const std::optional<std::string>& against() const { return streams_.against(); }
  StepRecord take() {
    streams_.finish();
    for (const StreamEdgeRecord& edge : streams_.take_edges()) to_.edge(edge);
    return std::move(to_);
  }

  void enter(const ActionRecord& instance, const ActionRecord& recorded_as) {
    instance_ = &instance;
    // The first action stands for the first one of the micro-batch that is repeated.
    begin_numbers(instance.micro_batch, recorded_as.begin);
    streams_.enter(instance, recorded_as);
  }
  void leave() {
    streams_.leave();
    instance_ = nullptr;
  }

  void append(const ExpandedEvent& e) {
    streams_.until(e.position);
    const auto index = static_cast<size_t>(e.event.index);
    switch (e.event.kind) {
      case RecordEventKind::op: {
        OpEntryRecord op = from_.ops()[index];
        op.stream_position = streams_.position(op.stream, op.stream_position);
        to_.set_in_graph(op.in_graph);
        return to_.op(std::move(op));
      }
      case RecordEventKind::allocate: {
        const AllocationRecord& a = from_.allocations()[index];
        number_of(e, ids_) = next_id_;
        return to_.allocate(next_id_++, a.bytes, a.tag);
      }
      case RecordEventKind::release: {
        const AllocationRecord& a = from_.allocations()[index];
        return to_.release(number_of(e, ids_), a.bytes, a.tag);
      }
      case RecordEventKind::open_scope: {
        ScopeRecord scope = from_.scopes()[index];
        if (e.instance != nullptr && scope.micro_batch >= 0)
          scope.micro_batch = e.instance->micro_batch;
        number_of(e, scopes_) = to_.open_scope(std::move(scope));
        return;
      }
      case RecordEventKind::close_scope:
        return to_.close_scope(number_of(e, scopes_));
      case RecordEventKind::host_read: {
        const HostReadRecord& read = from_.host_reads()[index];
        return to_.host_read(read.reason, streams_.position_now(0));
      }
      case RecordEventKind::launch:
        number_of(e, collectives_) = launch(index, e.instance != nullptr);
        return;
      case RecordEventKind::complete: {
        const CollectiveRecord& c = from_.collectives()[index];
        return to_.complete(number_of(e, collectives_), c.wait_begin_seconds, c.complete_seconds,
                            c.busy_seconds, c.blocks_host);
      }
      case RecordEventKind::host_call:
        number_of(e, host_calls_) = to_.host_call(from_.host_calls()[index]);
        return;
      case RecordEventKind::host_call_done:
        return to_.host_call_done(number_of(e, host_calls_),
                                  from_.host_calls()[index].wait_begin_seconds);
      case RecordEventKind::none:
        return;
    }
  }

 private:
  explicit Replay(const StepRecord& record)
      : from_(record), streams_(record), counter_of_(record.collectives().size()) {
    VIADUCT_CHECK(Error, record.older_releases().empty() && record.with_stream_calls(),
                  "expanding a record: expected one from the begin of a device, with the calls of "
                  "its streams");
    to_.set_timed(false);  // as on the devices of dry runs
    begin_numbers(-1, 0);
    if (!record.allocations().empty()) next_id_ = record.allocations().front().id;
  }

  /// Numbers of entries in the new record.
  using Numbers = InstanceValues<int64_t>;
  /// That of an entry that begins. An instance ends what it begins.
  static int64_t& number_of(const ExpandedEvent& e, Numbers& numbers) {
    return numbers.at(e.instance == nullptr ? -1 : e.instance->micro_batch, e.event.index);
  }
  /// A micro-batch repeats entries from a position of the old record on.
  template <class Entry>
  static void begin_numbers(Numbers& numbers, int64_t micro_batch,
                            const std::vector<Entry>& entries, int64_t Entry::*at, int64_t from) {
    const auto first =
        std::ranges::partition_point(entries, [&](const Entry& entry) { return entry.*at < from; });
    numbers.begin(micro_batch, first - entries.begin());
  }
  void begin_numbers(int64_t micro_batch, int64_t from) {
    begin_numbers(ids_, micro_batch, from_.allocations(), &AllocationRecord::allocated_at, from);
    begin_numbers(scopes_, micro_batch, from_.scopes(), &ScopeRecord::begin_at, from);
    begin_numbers(collectives_, micro_batch, from_.collectives(), &CollectiveRecord::launched_at,
                  from);
    begin_numbers(host_calls_, micro_batch, from_.host_calls(), &HostCallRecord::posted_at, from);
  }

  int64_t launch(size_t index, bool of_instance) {
    CollectiveRecord c = from_.collectives()[index];
    c.sequence = counter_of(index).next(c.sequence, of_instance);
    c.stream_position = streams_.position(c.stream, c.stream_position);
    if (c.message_group >= 0) {
      // The messages of a group are launched one right after the other.
      GroupCounter& group = message_groups_[c.members.get()];
      if (group.instance != instance_ || group.recorded != c.message_group)
        group.number = group.counter.next(c.message_group, of_instance);
      group.instance = instance_, group.recorded = c.message_group;
      c.message_group = group.number;
    }
    return to_.launch(std::move(c));
  }

  /// Counts up as a communicator does, instances included.
  struct Counter {
    int64_t instances = 0, last = -1;
    int64_t next(int64_t recorded, bool of_instance) {
      last = of_instance ? last + 1 : recorded + instances;
      instances += of_instance;
      return last;
    }
  };
  /// Of the sequence that a collective is in.
  Counter& counter_of(size_t index) {
    Counter*& counter = counter_of_[index];
    if (counter == nullptr) {
      const CollectiveRecord& c = from_.collectives()[index];
      const bool message = is_message(c);
      counter = &counters_[{c.members.get(), message ? std::optional(c.operation) : std::nullopt,
                            message ? c.peer : -1, c.flow}];
    }
    return *counter;
  }
  struct GroupCounter {
    Counter counter;
    const ActionRecord* instance = nullptr;  // of the last group of messages
    int64_t recorded = -1, number = -1;      // its number in the old record and in the new one
  };
  using Group = const RankRule*;  // each communicator has its own

  const StepRecord& from_;
  StepRecord to_;
  StreamReplay streams_;
  const ActionRecord* instance_ = nullptr;  // that is going on
  int64_t next_id_ = 0;
  Numbers ids_, scopes_, collectives_, host_calls_;
  std::map<std::tuple<Group, std::optional<Collective>, int, std::optional<Flow>>, Counter>
      counters_;
  std::vector<Counter*> counter_of_;  // the same, by index in the old record
  std::map<Group, GroupCounter> message_groups_;
};

}  // namespace

ExpandedRecord expanded(const RecordExpansion& expansion) {
  ExpandedRecord result;
  result.positions.reserve(static_cast<size_t>(expansion.record().position()) + 1);
  Replay replay(expansion);
  const auto note_position = [&](int64_t at) {
    if (static_cast<int64_t>(result.positions.size()) == at)
      result.positions.push_back(replay.position());
  };
  expansion.go_through(
      [&](const ExpandedEvent& e) {
        note_position(e.at);
        replay.append(e);
      },
      [&](const ActionRecord& instance, const ActionRecord& recorded_as) {
        replay.enter(instance, recorded_as);
      },
      [&] { replay.leave(); });
  result.positions.push_back(replay.position());
  result.record = replay.take();
  result.against = replay.against();
  return result;
}

}  // namespace viaduct
