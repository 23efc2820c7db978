#include "timeline/repeats.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "timeline/record_events.h"
#include "timeline/stream_replay.h"

namespace viaduct {
namespace {

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
      if (action.begin < action.end) with_events_.push_back(&action);
      if (action.calls_begin < action.calls_end) with_calls_.push_back(&action);
    }
    for (auto& [micro_batch, actions] : of_micro_batch_)
      std::ranges::sort(actions, {}, &ActionRecord::number);
  }

  /// Nothing: the two did the same, and neither passed anything to others or took it from them.
  std::optional<std::string> difference(int64_t first, int64_t second) const {
    const auto& a = of_micro_batch_.at(first);
    const auto& b = of_micro_batch_.at(second);
    for (size_t number = 0; number < std::max(a.size(), b.size()); ++number) {
      const std::vector<std::string> mine = lines(a, number), other = lines(b, number);
      for (size_t i = 0; i < std::max(mine.size(), other.size()); ++i) {
        const std::string one = i < mine.size() ? mine[i] : "nothing",
                          two = i < other.size() ? other[i] : "nothing";
        if (one == two && one.find(kElsewhere) == std::string::npos) continue;
        return fmt::format("micro-batches {} and {}, action {}, event {}: {}; {}", first, second,
                           number, i, one, two);
      }
    }
    return std::nullopt;
  }

 private:
  static constexpr const char* kElsewhere = "outside of the micro-batch";

  std::vector<std::string> lines(const std::vector<const ActionRecord*>& actions,
                                 size_t number) const {
    std::vector<std::string> list;
    if (number >= actions.size()) return list;
    const ActionRecord& action = *actions[number];
    for (int64_t at = action.begin; at < action.end; ++at)
      list.push_back(line(at, action.micro_batch));
    for (int64_t call = action.calls_begin; call < action.calls_end; ++call)
      list.push_back(call_line(call, action.micro_batch));
    return list;
  }

  /// The place of a position in the actions of the same micro-batch.
  std::string place(int64_t position, int64_t micro_batch) const {
    return place(position, micro_batch, with_events_, &ActionRecord::begin, &ActionRecord::end);
  }
  static std::string place(int64_t position, int64_t micro_batch,
                           const std::vector<const ActionRecord*>& actions,
                           int64_t ActionRecord::*begin, int64_t ActionRecord::*end) {
    auto next = std::upper_bound(
        actions.begin(), actions.end(), position,
        [&](int64_t at, const ActionRecord* action) { return at < action->*begin; });
    if (next == actions.begin()) return kElsewhere;
    const ActionRecord& action = **--next;
    if (position >= action.*end || action.micro_batch != micro_batch) return kElsewhere;
    return fmt::format("{} of action {}", position - action.*begin, action.number);
  }

  /// Whether a wait changes anything depends on what else was waited for before.
  std::string call_line(int64_t index, int64_t micro_batch) const {
    const StreamCallRecord& call = record_.stream_calls()[static_cast<size_t>(index)];
    if (call.from_stream < 0) return fmt::format("work of stream {}", call.stream);
    const std::string after =
        waits_for_all(record_.stream_calls(), index)
            ? "all its work"
            : "its work up to call " + place(call.from_calls - 1, micro_batch, with_calls_,
                                             &ActionRecord::calls_begin, &ActionRecord::calls_end);
    return fmt::format("stream {} waits for stream {}, {}", call.stream, call.from_stream, after);
  }

  std::string line(int64_t position, int64_t micro_batch) const {
    const RecordEvent& event = events_[static_cast<size_t>(position)];
    const auto index = static_cast<size_t>(event.index);
    const auto began = [&] { return place(begin_of(record_, event, position), micro_batch); };
    switch (event.kind) {
      case RecordEventKind::op: {
        const OpEntryRecord& op = record_.ops()[index];
        return fmt::format(
            "{} by {}, stream {}, {} launches, {} operations, {} and {} bytes, {} of "
            "workspace, {}",
            op.op, op.kernel, op.stream, op.launches, fmt::join(op.cost.flops, " + "),
            op.cost.bytes_read, op.cost.bytes_written, op.workspace_bytes, op.shapes);
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
            "{} of {} {} ({}) with {}, {} bytes, {} sent, queue {}{}, complete at {}",
            choice_name(c.operation), c.group, c.members->text(), choice_name_or(c.flow, ""),
            c.peer, c.bytes, c.wire_bytes, c.queue, c.message_group < 0 ? "" : ", grouped",
            place(c.completed_at, micro_batch));
      }
      case RecordEventKind::complete:
        return "complete " + began();
      case RecordEventKind::host_read:
        return "the host reads " + record_.host_reads()[index].reason;
      case RecordEventKind::host_call:
      case RecordEventKind::host_call_done:
      case RecordEventKind::none:
        break;
    }
    return fmt::format("the host asks other hosts: {}", kElsewhere);
  }

  const StepRecord& record_;
  const std::vector<RecordEvent>& events_;
  std::map<int64_t, std::vector<const ActionRecord*>> of_micro_batch_;  // by number
  // In order, those in which something happened, and those that gave streams something.
  std::vector<const ActionRecord*> with_events_, with_calls_;
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
