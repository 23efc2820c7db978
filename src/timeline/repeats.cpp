#include "timeline/repeats.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <type_traits>

#include "timeline/record_events.h"

namespace viaduct {
namespace {

/// What an action did as bytes, which are compared faster than text.
class Fingerprint {
 public:
  template <class... T>
  void add(const T&... values) {
    (append(values), ...);
  }
  /// Something outside of the micro-batch is part of it.
  void add_elsewhere() { elsewhere_ = true; }
  bool repeats(const Fingerprint& other) const {
    return !elsewhere_ && !other.elsewhere_ && bytes_ == other.bytes_;
  }

 private:
  void append(std::string_view text) {
    append(text.size());
    bytes_.append(text);
  }
  void append(const std::string& text) { append(std::string_view(text)); }
  template <class T>
  void append(const T& value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  std::string bytes_;
  bool elsewhere_ = false;
};

/// What the micro-batches of a recorded step did, with positions relative to the beginnings of
/// their actions.
class StepEvents {
 public:
  StepEvents(const StepRecord& record, const std::vector<RecordEvent>& events,
             const StepActions& step)
      : record_(record), events_(events) {
    for (const ActionRecord& action : step.actions) {
      if (!action.ran()) continue;
      of_micro_batch_[action.micro_batch].push_back(&action);
      if (action.begin < action.end) in_order_.push_back(&action);
      ran_.push_back(&action);
    }
  }

  /// Nothing: the two did the same, and neither passed anything to others or took it from them.
  std::optional<std::string> difference(int64_t first, int64_t second) const {
    const auto& a = of_micro_batch_.at(first);
    const auto& b = of_micro_batch_.at(second);
    for (size_t number = 0; number < std::max(a.size(), b.size()); ++number) {
      if (number < std::min(a.size(), b.size()) &&
          fingerprint(*a[number]).repeats(fingerprint(*b[number])))
        continue;
      const std::vector<std::string> mine = lines(a, number), other = lines(b, number);
      for (size_t i = 0; i < std::max(mine.size(), other.size()); ++i) {
        const std::string one = i < mine.size() ? mine[i] : "nothing",
                          two = i < other.size() ? other[i] : "nothing";
        if (one == two && one.find(kElsewhere) == std::string::npos) continue;
        return fmt::format("micro-batches {} and {}, action {}, event {}: {}; {}", first, second,
                           number, i, one, two);
      }
      return fmt::format("micro-batches {} and {}, action {}: entries differ", first, second,
                         number);
    }
    return std::nullopt;
  }

 private:
  static constexpr const char* kElsewhere = "outside of the micro-batch";

  /// What an edge waits for: all earlier work of the stream, or that at a place of an action; else
  /// work outside of the micro-batch.
  struct Source {
    bool all = false;
    const ActionRecord* action = nullptr;
    int64_t place = 0;

    std::string text() const {
      if (action != nullptr) return fmt::format("{} of action {}", place, action->number);
      return all ? "all its earlier work" : kElsewhere;
    }
  };
  /// Calls `event` with the positions of an action and `edge` with its edges, in their order.
  template <class OfEvent, class OfEdge>
  void for_each(const ActionRecord& action, OfEvent&& event, OfEdge&& edge) const {
    int64_t next = action.edges_begin;
    for (int64_t at = action.begin; at <= action.end; ++at) {
      for (; next < action.edges_end && record_.edges()[static_cast<size_t>(next)].at <= at; ++next)
        edge(record_.edges()[static_cast<size_t>(next)]);
      if (at < action.end) event(at);
    }
  }

  std::vector<std::string> lines(const std::vector<const ActionRecord*>& actions,
                                 size_t number) const {
    std::vector<std::string> list;
    if (number >= actions.size()) return list;
    const ActionRecord& action = *actions[number];
    for_each(
        action, [&](int64_t at) { list.push_back(line(at, action)); },
        [&](const StreamEdgeRecord& edge) { list.push_back(line(edge, action)); });
    return list;
  }

  Fingerprint fingerprint(const ActionRecord& action) const {
    Fingerprint print;
    for_each(
        action, [&](int64_t at) { add(at, action, print); },
        [&](const StreamEdgeRecord& edge) {
          print.add(RecordEventKind::edge, edge.to_stream,
                    place(action, edge.to_stream, edge.to_position), edge.from_stream);
          const Source from = source(edge, action);
          if (from.action == nullptr) print.add(from.all);
          if (from.action != nullptr) print.add(from.place, from.action->number);
          if (from.action == nullptr && !from.all) print.add_elsewhere();
        });
    return print;
  }

  /// The same as `line`, for each kind of event.
  void add(int64_t position, const ActionRecord& action, Fingerprint& print) const {
    const RecordEvent& event = events_[static_cast<size_t>(position)];
    const auto index = static_cast<size_t>(event.index);
    const int64_t micro_batch = action.micro_batch;
    const auto add_place = [&](int64_t at) {
      const ActionRecord* in = action_at(at, micro_batch);
      if (in == nullptr) return print.add_elsewhere();
      print.add(at - in->begin, in->number);
    };
    print.add(event.kind);
    switch (event.kind) {
      case RecordEventKind::op: {
        const OpEntryRecord& op = record_.ops()[index];
        print.add(op.op, op.kernel, place(action, op.stream, op.stream_position), op.stream,
                  op.launches, op.cost.bytes_read, op.cost.bytes_written, op.workspace_bytes,
                  op.shapes);
        for (const double flops : op.cost.flops) print.add(flops);
        return;
      }
      case RecordEventKind::allocate: {
        const AllocationRecord& a = record_.allocations()[index];
        print.add(a.bytes, a.tag);
        return add_place(a.released_at);
      }
      case RecordEventKind::open_scope: {
        const ScopeRecord& scope = record_.scopes()[index];
        print.add(scope.kind, scope.name, scope.chunk, scope.micro_batch == micro_batch);
        return add_place(scope.end_at);
      }
      case RecordEventKind::launch: {
        const CollectiveRecord& c = record_.collectives()[index];
        print.add(c.operation, c.group, c.members->text(), c.flow, c.peer, c.bytes, c.wire_bytes,
                  c.queue, c.has_place() ? place(action, c.stream, c.stream_position) : 0, c.stream,
                  c.message_group < 0);
        return add_place(c.completed_at);
      }
      case RecordEventKind::release:
      case RecordEventKind::close_scope:
      case RecordEventKind::complete:
        return add_place(begin_of(record_, event, position));
      case RecordEventKind::host_read:
      case RecordEventKind::host_call:
      case RecordEventKind::host_call_done:
      case RecordEventKind::edge:
      case RecordEventKind::none:
        return print.add_elsewhere();
    }
  }

  /// The place of a stream's work among that of the action.
  static int64_t place(const ActionRecord& action, int stream, int64_t position) {
    return position - work_of(action.work_begin, stream);
  }

  std::string line(const StreamEdgeRecord& edge, const ActionRecord& action) const {
    const Source from = source(edge, action);
    return fmt::format("stream {} waits from {} on for stream {}: {}", edge.to_stream,
                       place(action, edge.to_stream, edge.to_position), edge.from_stream,
                       from.text());
  }

  Source source(const StreamEdgeRecord& edge, const ActionRecord& action) const {
    const int64_t here = place(action, edge.from_stream, edge.from_position);
    if (here == 0 && edge.latest && !awaits_operation(record_, events_, edge)) return {.all = true};
    const ActionRecord* gave = action_of_work(ran_, edge.from_stream, edge.from_position);
    if (gave == nullptr || gave->micro_batch != action.micro_batch ||
        edge.from_position > work_of(gave->work_end, edge.from_stream))
      return {};
    return {false, gave, place(*gave, edge.from_stream, edge.from_position)};
  }

  /// The action that has a position, if it is of this micro-batch.
  const ActionRecord* action_at(int64_t position, int64_t micro_batch) const {
    auto next =
        std::upper_bound(in_order_.begin(), in_order_.end(), position,
                         [](int64_t at, const ActionRecord* action) { return at < action->begin; });
    if (next == in_order_.begin()) return nullptr;
    const ActionRecord& action = **--next;
    return position >= action.end || action.micro_batch != micro_batch ? nullptr : &action;
  }

  /// The place of a position in the actions of the same micro-batch.
  std::string place(int64_t position, int64_t micro_batch) const {
    const ActionRecord* action = action_at(position, micro_batch);
    if (action == nullptr) return kElsewhere;
    return fmt::format("{} of action {}", position - action->begin, action->number);
  }

  std::string line(int64_t position, const ActionRecord& action) const {
    const int64_t micro_batch = action.micro_batch;
    const RecordEvent& event = events_[static_cast<size_t>(position)];
    const auto index = static_cast<size_t>(event.index);
    const auto began = [&] { return place(begin_of(record_, event, position), micro_batch); };
    switch (event.kind) {
      case RecordEventKind::op: {
        const OpEntryRecord& op = record_.ops()[index];
        return fmt::format(
            "{} by {}, {} of stream {}, {} launches, {} operations, {} and {} bytes, {} of "
            "workspace, {}",
            op.op, op.kernel, place(action, op.stream, op.stream_position), op.stream, op.launches,
            fmt::join(op.cost.flops, " + "), op.cost.bytes_read, op.cost.bytes_written,
            op.workspace_bytes, op.shapes);
      }
      case RecordEventKind::allocate: {
        const AllocationRecord& a = record_.allocations()[index];
        return fmt::format("allocate {} bytes of {}, released at {}", a.bytes, a.tag,
                           place(a.released_at, micro_batch));
      }
      case RecordEventKind::release:
        return "release " + began();
      case RecordEventKind::open_scope: {
        const ScopeRecord& scope = record_.scopes()[index];
        return fmt::format("begin {} {} of chunk {}{}, end at {}", static_cast<int>(scope.kind),
                           scope.name, scope.chunk,
                           scope.micro_batch == micro_batch ? " for the micro-batch" : "",
                           place(scope.end_at, micro_batch));
      }
      case RecordEventKind::close_scope:
        return "end of what began at " + began();
      case RecordEventKind::launch: {
        const CollectiveRecord& c = record_.collectives()[index];
        return fmt::format(
            "{} of {} {} ({}) with {}, {} bytes, {} sent, queue {}, {} of stream {}{}, complete at "
            "{}",
            c.operation, c.group, c.members->text(), c.flow, c.peer, c.bytes, c.wire_bytes, c.queue,
            c.has_place() ? place(action, c.stream, c.stream_position) : 0, c.stream,
            c.message_group < 0 ? "" : ", grouped", place(c.completed_at, micro_batch));
      }
      case RecordEventKind::complete:
        return "complete " + began();
      case RecordEventKind::host_read:
      case RecordEventKind::host_call:
      case RecordEventKind::host_call_done:
      case RecordEventKind::edge:
      case RecordEventKind::none:
        break;
    }
    return fmt::format("the host reads, or asks other hosts: {}", kElsewhere);
  }

  const StepRecord& record_;
  const std::vector<RecordEvent>& events_;
  std::map<int64_t, std::vector<const ActionRecord*>> of_micro_batch_;
  std::vector<const ActionRecord*> ran_;       // all of them
  std::vector<const ActionRecord*> in_order_;  // those in which something happened
};

}  // namespace

std::optional<std::string> against_repeats(const StepRecord& record, const ActionLog& log) {
  if (!has_instances(log)) return std::nullopt;
  const std::vector<RecordEvent> events = events_of(record);
  for (const StepActions& step : log) {
    const StepEvents of_step(record, events, step);
    for (const auto& [first, second] : step.alike) {
      if (auto found = of_step.difference(first, second)) return found;
    }
  }
  return std::nullopt;
}

}  // namespace viaduct
