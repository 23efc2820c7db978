#include "pipeline/place_messages.h"

#include <array>
#include <deque>
#include <map>

namespace viaduct {
namespace {

/// Writes the actions of one stage.
class Writer {
 public:
  Writer(const ScheduleSettings& settings, int stage, const std::vector<Step>& steps)
      : settings_(settings), stage_(stage), steps_(steps) {}

  ActionList write() {
    collect_receives();
    const auto count = static_cast<int64_t>(steps_.size());
    for (int64_t i = 0; i <= count; ++i) {
      exchange(i);
      if (i == count) break;
      const Step& step = steps_[static_cast<size_t>(i)];
      if (step.combined) {
        for (const Compute& work : step.work) wait_for_input(work);
        for (const Compute& work : step.work) compute(work, &work == &step.work.front());
        for (const Compute& work : step.work) hand_over(work, i);
      } else {
        for (const Compute& work : step.work) {
          wait_for_input(work);
          compute(work, false);
          hand_over(work, i);
        }
      }
    }
    wait_for_sends();
    return std::move(actions_);
  }

 private:
  void compute(const Compute& work, bool combined) {
    Action action{work.kind, work.micro_batch, work.chunk};
    action.combined = combined;
    actions_.push_back(action);
  }
  /// The output of work of step i: sent at once, or at the next exchange.
  void hand_over(const Compute& work, int64_t i) {
    if (receiver(work) < 0) return;
    const Action output = output_of(work);
    if (output.kind == ActionKind::pass) {
      actions_.push_back(output);
    } else if (overlapped_at(i + 1)) {
      post(output);
    } else {
      ready_to_send_.push_back(output);
    }
  }

  using Channel = std::array<int, 3>;  // outgoing, flow, peer
  static Channel channel(const Message& m) {
    return {m.outgoing ? 1 : 0, static_cast<int>(m.flow), m.peer};
  }

  /// The rank that has the virtual stage `ahead` of that of `work` in the direction of its flow;
  /// −1: the model ends before it.
  int rank_ahead(const Compute& work, int ahead) const {
    const StageOrder order = settings_.order();
    const int64_t other =
        order.virtual_stage(stage_, work.chunk) + (is_forward(work) ? ahead : -ahead);
    return other < 0 || other >= order.count(settings_.virtual_stages) ? -1 : order.rank_of(other);
  }
  static bool is_forward(const Compute& work) { return work.kind == ActionKind::forward; }
  static Flow flow_of(const Compute& work) {
    return is_forward(work) ? Flow::activations : Flow::gradients;
  }

  bool receives_input(const Compute& work) const {
    if (work.kind == ActionKind::backward_weight) return false;
    const int from = rank_ahead(work, -1);
    return from >= 0 && from != stage_;
  }
  /// The rank that gets the output: another one, this one, or −1.
  int receiver(const Compute& work) const {
    return work.kind == ActionKind::backward_weight ? -1 : rank_ahead(work, 1);
  }
  Action output_of(const Compute& work) const {
    const int to = receiver(work);
    return {to == stage_ ? ActionKind::pass : ActionKind::post_send,
            work.micro_batch,
            work.chunk,
            {},
            {true, flow_of(work), to, 0}};
  }
  Action receive_of(const Compute& work) const {
    return {ActionKind::post_receive,
            work.micro_batch,
            work.chunk,
            {},
            {false, flow_of(work), rank_ahead(work, -1), 0}};
  }

  /// All receives of the step, by the exchange at which they are due.
  void collect_receives() {
    for (const Step& step : steps_) {
      for (const Compute& work : step.work) {
        if (receives_input(work)) due_[work.due].push_back(receive_of(work));
      }
    }
  }

  /// Whether exchange i (before step i) leaves its messages in flight.
  bool overlapped_at(int64_t i) const {
    if (settings_.messages != PointToPoint::overlapped) return false;
    if (settings_.overlap_warmup_flush) return true;
    const auto at = static_cast<size_t>(i);
    return i > 0 && at < steps_.size() && steps_[at - 1].steady && steps_[at].steady;
  }

  void exchange(int64_t i) {
    const bool overlapped = overlapped_at(i);
    std::deque<Action> receives;
    while (!due_.empty() && due_.begin()->first <= i + (overlapped ? 1 : 0)) {
      for (const Action& receive : due_.begin()->second) receives.push_back(receive);
      due_.erase(due_.begin());
    }
    if (overlapped) {
      for (const Action& receive : receives) post(receive);
    } else if (settings_.messages == PointToPoint::ordered) {
      exchange_one_by_one(receives);
    } else {
      wait_for_sends();
      for (const Action& send : ready_to_send_) post(send);
      for (Action& receive : receives) receive = post(receive);
      for (const Action& receive : receives) wait_for(receive);
      wait_for_sends();
      ready_to_send_.clear();
    }
  }

  void exchange_one_by_one(const std::deque<Action>& receives) {
    wait_for_sends();
    for (const Flow flow : {Flow::activations, Flow::gradients}) {
      for (const bool sends : {stage_ % 2 == 0, stage_ % 2 != 0}) {
        if (sends) {
          for (const Action& send : ready_to_send_)
            if (send.message.flow == flow) post(send), wait_for_sends();
        } else {
          for (const Action& receive : receives)
            if (receive.message.flow == flow) wait_for(post(receive));
        }
      }
    }
    ready_to_send_.clear();
  }

  /// Posts a message. At most one send of a channel is in flight.
  Action post(Action action) {
    if (action.message.outgoing) {
      const auto before = sends_.find(key(action));
      if (before != sends_.end()) wait_for(Action(before->second));
    }
    action.message.sequence = posted_[channel(action.message)]++;
    actions_.push_back(action);
    (action.message.outgoing ? sends_ : receives_).insert({key(action), action});
    return action;
  }
  void wait_for(Action action) {
    (action.message.outgoing ? sends_ : receives_).erase(key(action));
    action.kind = ActionKind::wait;
    actions_.push_back(action);
  }
  void wait_for_sends() {
    while (!sends_.empty()) wait_for(Action(sends_.begin()->second));
  }
  void wait_for_input(const Compute& work) {
    if (!receives_input(work)) return;
    const auto found = receives_.find(key(receive_of(work)));
    if (found != receives_.end()) wait_for(Action(found->second));
  }

  /// For a send: its channel; for a receive: its consumer.
  static std::array<int64_t, 3> key(const Action& action) {
    const auto flow = static_cast<int64_t>(action.message.flow);
    if (action.message.outgoing) return {1, flow, action.message.peer};
    return {flow, action.micro_batch, action.chunk};
  }

  const ScheduleSettings& settings_;
  int stage_;
  const std::vector<Step>& steps_;
  ActionList actions_;
  std::map<int64_t, std::vector<Action>> due_;  // receives not posted yet, by exchange
  std::vector<Action> ready_to_send_;
  std::map<std::array<int64_t, 3>, Action> sends_, receives_;  // posted, not waited for
  std::map<Channel, int64_t> posted_;
};

}  // namespace

ActionList place_messages(const ScheduleSettings& settings, int stage,
                          const std::vector<Step>& steps) {
  return Writer(settings, stage, steps).write();
}

}  // namespace viaduct
