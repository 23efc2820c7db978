#include "pipeline/replay_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "base/error.h"

namespace viaduct {
namespace {

/// A message whichever end it is seen from: sender, receiver, flow, number.
using MessageKey = std::tuple<int, int, Flow, int64_t>;

MessageKey key_of(const Message& m, int stage) {
  return m.outgoing ? MessageKey{stage, m.peer, m.flow, m.sequence}
                    : MessageKey{m.peer, stage, m.flow, m.sequence};
}

struct Posts {
  std::optional<double> send, receive;
};

struct StageState {
  size_t next = 0;
  double clock = 0;
};

double duration(const Action& action, const ComputeTimes& times) {
  // Of the last segment by itself only the weight half counts; the rest of its work is in the
  // others.
  const bool last = action.segments == kLastSegment, rest = action.segments == kAllButLastSegment;
  const double weight = last   ? times.last_segment_weight
                        : rest ? times.backward_weight - times.last_segment_weight
                               : times.backward_weight;
  switch (action.kind) {
    case ActionKind::forward:
      return last ? 0 : times.forward;
    case ActionKind::backward:
      return (last ? 0 : times.backward_input) + weight;
    case ActionKind::backward_input:
      return last ? 0 : times.backward_input;
    case ActionKind::backward_weight:
      return weight;
    default:
      return 0;
  }
}

[[noreturn]] void fail_standing_still(const Schedule& schedule,
                                      const std::vector<StageState>& states) {
  std::string waits;
  for (int stage = 0; stage < schedule.pp(); ++stage) {
    const auto at = static_cast<size_t>(stage);
    if (states[at].next == schedule.stages[at].size()) continue;
    waits += fmt::format("{}stage {} at {}", waits.empty() ? "" : "; ", stage,
                         describe(schedule.stages[at][states[at].next]));
  }
  fail<CommError>("pipeline schedule: deadlock: {}", waits);
}

}  // namespace

ScheduleTimes replay_schedule(const Schedule& schedule, const ComputeTimes& times) {
  const auto stages = static_cast<size_t>(schedule.pp());
  std::vector<StageState> states(stages);
  std::map<MessageKey, Posts> posts;
  ScheduleTimes result;
  result.stages.resize(stages);

  // One action of a stage; false if it has to wait for another.
  const auto step = [&](size_t stage) {
    StageState& state = states[stage];
    const Action& action = schedule.stages[stage][state.next];
    if (computes(action.kind)) {
      const double end = state.clock + duration(action, times);
      result.stages[stage].push_back({state.next, state.clock, end});
      state.clock = end;
    } else {
      Posts& message = posts[key_of(action.message, static_cast<int>(stage))];
      if (action.kind == ActionKind::post_send) message.send = state.clock;
      if (action.kind == ActionKind::post_receive) message.receive = state.clock;
      if (action.kind == ActionKind::wait) {
        if (!message.send || !message.receive) return false;
        state.clock = std::max({state.clock, *message.send, *message.receive});
      }
    }
    ++state.next;
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t stage = 0; stage < stages; ++stage) {
      while (states[stage].next < schedule.stages[stage].size() && step(stage)) moved = true;
    }
  }
  for (size_t stage = 0; stage < stages; ++stage) {
    if (states[stage].next != schedule.stages[stage].size()) fail_standing_still(schedule, states);
    double busy = 0;
    for (const Span& span : result.stages[stage]) busy += span.end - span.begin;
    result.busy = std::max(result.busy, busy);
    if (!result.stages[stage].empty())
      result.end = std::max(result.end, result.stages[stage].back().end);
  }
  return result;
}

}  // namespace viaduct
