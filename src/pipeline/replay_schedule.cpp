#include "pipeline/replay_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <tuple>

#include "base/error.h"

namespace viaduct {
namespace {

/// A message, identified equally from both ends: sender, receiver, flow, number.
using MessageKey = std::tuple<int, int, Flow, int64_t>;

/// Posted messages, in the queues of both ends, and their times of completion.
class Messages {
 public:
  explicit Messages(MessageQueues queues) : queues_(queues) {}

  void post(const Message& m, int stage, double time) {
    const MessageKey key = m.outgoing ? MessageKey{stage, m.peer, m.flow, m.sequence}
                                      : MessageKey{m.peer, stage, m.flow, m.sequence};
    Ends& ends = ends_[key];
    (m.outgoing ? ends.sender : ends.receiver) = &waiting_[queue_of(m, stage)];
    waiting_[queue_of(m, stage)].push_back({key, time});
    move_on(waiting_[queue_of(m, stage)]);
  }
  std::optional<double> through(const Message& m, int stage) const {
    const auto found = ends_.find(m.outgoing ? MessageKey{stage, m.peer, m.flow, m.sequence}
                                             : MessageKey{m.peer, stage, m.flow, m.sequence});
    return found == ends_.end() ? std::nullopt : found->second.through;
  }

 private:
  struct Posted {
    MessageKey key;
    double time = 0;  // of the post, or of the completion of the one before it
  };
  using Queue = std::deque<Posted>;
  struct Ends {
    Queue *sender = nullptr, *receiver = nullptr;
    std::optional<double> through;
  };
  using QueueKey = std::tuple<int, int, bool, Flow>;  // stage, peer, outgoing, flow

  QueueKey queue_of(const Message& m, int stage) const {
    if (queues_ == MessageQueues::per_pair) return {stage, m.peer, false, Flow::activations};
    return {stage, m.peer, m.outgoing, m.flow};
  }
  /// The first message of a queue completes when it is also the first at its other end.
  void move_on(Queue& queue) {
    while (!queue.empty()) {
      const MessageKey key = queue.front().key;
      Ends& ends = ends_.at(key);
      if (ends.sender == nullptr || ends.receiver == nullptr) return;
      Queue& other = &queue == ends.sender ? *ends.receiver : *ends.sender;
      if (other.front().key != key) return;
      const double time = std::max(queue.front().time, other.front().time);
      ends.through = time;
      for (Queue* end : {&queue, &other}) {
        end->pop_front();
        if (!end->empty()) end->front().time = std::max(end->front().time, time);
      }
      move_on(other);
    }
  }

  MessageQueues queues_;
  std::map<QueueKey, Queue> waiting_;
  std::map<MessageKey, Ends> ends_;
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

ScheduleTimes replay_schedule(const Schedule& schedule, const ComputeTimes& times,
                              MessageQueues queues) {
  const auto stages = static_cast<size_t>(schedule.pp());
  std::vector<StageState> states(stages);
  Messages messages(queues);
  ScheduleTimes result;
  result.stages.resize(stages);

  // One action of a stage; false if it has to wait for another.
  const auto step = [&](size_t stage) {
    StageState& state = states[stage];
    const Action& action = schedule.stages[stage][state.next];
    if (computes(action.kind)) {
      const bool in_front = static_cast<int>(stage) < schedule.front_stages;
      const double share = in_front ? schedule.virtual_stages * times.front : 1;
      const double end = state.clock + share * duration(action, times);
      result.stages[stage].push_back({state.next, state.clock, end});
      state.clock = end;
    } else {
      const int here = static_cast<int>(stage);
      if (action.kind == ActionKind::wait) {
        const auto through = messages.through(action.message, here);
        if (!through) return false;
        state.clock = std::max(state.clock, *through);
      } else if (action.kind != ActionKind::pass) {
        messages.post(action.message, here, state.clock);
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
