#include "pipeline/validate_schedule.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "pipeline/replay_schedule.h"

namespace viaduct {
namespace {

/// What a message carries: the micro-batch, and the virtual stage that made it.
struct Payload {
  int64_t micro_batch = 0, from = 0;
  bool operator==(const Payload&) const = default;
};
using ChannelKey = std::tuple<int, int, Flow>;  // sender, receiver, flow

/// One end of every channel: payloads in the order of posting.
using Posts = std::map<ChannelKey, std::vector<Payload>>;

/// Walks through the actions of one stage.
class StageCheck {
 public:
  StageCheck(const Schedule& schedule, int stage, Posts& sends, Posts& receives)
      : schedule_(schedule), stage_(stage), sends_(sends), receives_(receives) {}

  StageHolds run() {
    for (const Action& action : schedule_.stages[static_cast<size_t>(stage_)]) {
      require(action.chunk >= 0 && action.chunk < chunks() && action.micro_batch >= 0 &&
                  action.micro_batch < schedule_.micro_batches,
              action, "there is no such micro-batch or chunk");
      if (computes(action.kind)) {
        compute(action);
      } else {
        message(action);
      }
      holds_.stores = std::max(holds_.stores, stores_);
      holds_.parts = std::max(holds_.parts, parts_);
      holds_.buffers =
          std::max(holds_.buffers, static_cast<int64_t>(open_.size() + received_.size()));
    }
    at_the_end();
    return holds_;
  }

 private:
  /// Progress of a micro-batch in a chunk; places as in SegmentRange.
  struct Progress {
    int forward = 0;                    // segments before it are computed
    int input = SegmentRange::kEnd;     // d_in of those from it on is computed
    std::vector<SegmentRange> weights;  // whose weight gradients are computed, in ascending order
    bool is_waiting = false;            // only weight halves of a part of it are missing

    bool forward_done() const { return forward == SegmentRange::kEnd; }
    /// Both halves of all segments.
    bool done() const { return weights.size() == 1 && weights[0].is_whole(); }
  };
  using Key = std::tuple<int64_t, int, Flow>;  // micro-batch, chunk, flow

  void require(bool condition, const Action& action, const char* why) const {
    VIADUCT_CHECK(CommError, condition, "pipeline schedule: stage {}: {}: {}", stage_,
                  describe(action), why);
  }
  int64_t virtual_stage(const Action& action) const {
    return schedule_.order().virtual_stage(stage_, action.chunk);
  }
  int64_t last_virtual_stage() const {
    return schedule_.order().count(schedule_.virtual_stages) - 1;
  }
  int chunks() const { return schedule_.order().chunks(stage_, schedule_.virtual_stages); }

  void compute(const Action& action) {
    const SegmentRange& range = action.segments;
    require(0 <= range.begin && range.begin < range.end, action, "there are no such segments");
    Progress& progress = progress_[{action.micro_batch, action.chunk}];
    if (action.kind == ActionKind::forward) {
      forward(action, progress);
    } else {
      backward(action, progress);
    }
  }

  void forward(const Action& action, Progress& progress) {
    require(action.segments.begin == progress.forward, action,
            progress.forward == 0 ? "comes before the segments ahead of it" : "comes twice");
    take_input(action);
    if (action.begins >= 0)
      require(begun_.insert(action.begins).second, action, "begins a chunk that has begun");
    require(begun_.contains(action.chunk), action, "its chunk has not begun");
    if (progress.forward == 0) ++stores_;
    progress.forward = action.segments.end;
  }

  void backward(const Action& action, Progress& progress) {
    constexpr const char* kOrder =
        "comes twice, or before its forward or the other part of the backward";
    const SegmentRange& range = action.segments;
    if (action.kind == ActionKind::backward_weight) {
      require(range.begin >= progress.input, action, kOrder);
    } else {
      require(progress.forward_done() && range.end == progress.input, action, kOrder);
      take_input(action);
      progress.input = range.begin;
    }
    require(!ended_.contains(action.chunk), action, "comes after the chunk's last_gradient");
    if (action.last_gradient) ended_.insert(action.chunk);
    has_backward_ = true;
    if (action.kind == ActionKind::backward_input) return;
    require(add(progress.weights, range), action, kOrder);
    count_held(progress);
  }

  /// Merges `range` with adjacent ranges; false if it overlaps one of them.
  static bool add(std::vector<SegmentRange>& ranges, SegmentRange range) {
    std::vector<SegmentRange> joined;
    for (const SegmentRange& other : ranges) {
      if (other.begin < range.end && range.begin < other.end) return false;
      if (other.end == range.begin) {
        range.begin = other.begin;
      } else if (other.begin == range.end) {
        range.end = other.end;
      } else {
        joined.push_back(other);
      }
    }
    joined.push_back(range);
    ranges = std::move(joined);
    return true;
  }

  /// After a weight half: the store is freed, or shrinks to what the remaining halves need.
  void count_held(Progress& progress) {
    if (progress.done()) {
      --(progress.is_waiting ? parts_ : stores_);
    } else if (progress.input == 0 && !progress.is_waiting) {
      progress.is_waiting = true;
      --stores_;
      ++parts_;
    }
  }

  void take_input(const Action& action) {
    const bool forward = action.kind == ActionKind::forward;
    const SegmentRange& range = action.segments;
    if (forward ? range.begin != 0 : range.end != SegmentRange::kEnd) return;
    if (virtual_stage(action) == (forward ? 0 : last_virtual_stage())) return;
    const Flow flow = forward ? Flow::activations : Flow::gradients;
    require(received_.erase({action.micro_batch, action.chunk, flow}) == 1, action,
            "its input was not received, or not waited for");
  }

  void message(const Action& action) {
    const Message& m = action.message;
    const bool activations = m.flow == Flow::activations;
    const int64_t step = activations ? 1 : -1, here = virtual_stage(action);
    const int64_t from = m.outgoing ? here : here - step, to = m.outgoing ? here + step : here;
    require(std::min(from, to) >= 0 && std::max(from, to) <= last_virtual_stage(), action,
            "the model ends here");
    require(m.peer == schedule_.order().rank_of(m.outgoing ? to : from), action,
            "the other end of this edge is another stage");
    require((action.kind == ActionKind::pass) == (m.peer == stage_), action,
            "an edge to another stage needs a message, one inside the stage needs a pass");
    const Key key{action.micro_batch, action.chunk, m.flow};
    if (action.kind == ActionKind::wait) {
      require(open_.erase({m.outgoing, m.flow, m.peer, m.sequence}) == 1, action,
              "the message was not posted, or is waited for twice");
      if (!m.outgoing) require(received_.insert(key).second, action, "received twice");
      return;
    }
    require(m.outgoing == (action.kind != ActionKind::post_receive), action, "wrong direction");
    if (m.outgoing) {
      const Progress& progress = progress_[{action.micro_batch, action.chunk}];
      require(activations ? progress.forward_done() : progress.input == 0, action,
              "what it sends is not computed yet");
    }
    if (action.kind == ActionKind::pass) {
      const int chunk = action.chunk + static_cast<int>(step);
      require(received_.insert({action.micro_batch, chunk, m.flow}).second, action, "passed twice");
      return;
    }
    auto& posts =
        m.outgoing ? sends_[{stage_, m.peer, m.flow}] : receives_[{m.peer, stage_, m.flow}];
    require(m.sequence == static_cast<int64_t>(posts.size()), action,
            "sequence numbers of a channel do not count up");
    posts.push_back({action.micro_batch, from});
    open_.insert({m.outgoing, m.flow, m.peer, m.sequence});
  }

  void at_the_end() const {
    const auto fail_end = [&](const char* what) {
      fail<CommError>("pipeline schedule: stage {}: {}", stage_, what);
    };
    if (!open_.empty()) fail_end("a message is posted and never waited for");
    if (!received_.empty()) fail_end("a message is received and never used");
    for (int64_t i = 0; i < schedule_.micro_batches; ++i) {
      for (int chunk = 0; chunk < chunks(); ++chunk) {
        const auto found = progress_.find({i, chunk});
        const bool finished = found != progress_.end() &&
                              (has_backward_ ? found->second.done() : found->second.forward_done());
        VIADUCT_CHECK(CommError, finished,
                      "pipeline schedule: stage {}: micro-batch {} of chunk {} is not finished",
                      stage_, i, chunk);
      }
    }
    if (has_backward_ && ended_.size() != static_cast<size_t>(chunks()))
      fail_end("a chunk has no last_gradient");
  }

  const Schedule& schedule_;
  int stage_;
  Posts &sends_, &receives_;
  std::map<std::pair<int64_t, int>, Progress> progress_;
  std::set<Key> received_;                               // arrived and not used yet
  std::set<std::tuple<bool, Flow, int, int64_t>> open_;  // posted, not waited for
  std::set<int> begun_, ended_;
  int64_t stores_ = 0, parts_ = 0;
  bool has_backward_ = false;
  StageHolds holds_;
};

void check_ends_match(const Posts& sends, const Posts& receives) {
  std::set<ChannelKey> channels;
  for (const Posts* ends : {&sends, &receives}) {
    for (const auto& [channel, payloads] : *ends) channels.insert(channel);
  }
  static const std::vector<Payload> kNone;
  for (const ChannelKey& channel : channels) {
    const auto found_send = sends.find(channel), found_receive = receives.find(channel);
    const auto& sent = found_send == sends.end() ? kNone : found_send->second;
    const auto& received = found_receive == receives.end() ? kNone : found_receive->second;
    const auto& [from, to, flow] = channel;
    const char* what = flow == Flow::activations ? "activations" : "gradients";
    for (size_t i = 0; i < std::min(sent.size(), received.size()); ++i) {
      VIADUCT_CHECK(CommError, sent[i] == received[i],
                    "pipeline schedule: message {} of {} from stage {} to {}: micro-batch {} of "
                    "virtual stage {} is sent, micro-batch {} of virtual stage {} expected",
                    i, what, from, to, sent[i].micro_batch, sent[i].from, received[i].micro_batch,
                    received[i].from);
    }
    VIADUCT_CHECK(CommError, sent.size() == received.size(),
                  "pipeline schedule: {} from stage {} to {}: {} messages are sent and {} received",
                  what, from, to, sent.size(), received.size());
  }
}

}  // namespace

std::vector<StageHolds> validate_schedule(const Schedule& schedule, MessageQueues queues) {
  Posts sends, receives;
  std::vector<StageHolds> holds;
  for (int stage = 0; stage < schedule.pp(); ++stage)
    holds.push_back(StageCheck(schedule, stage, sends, receives).run());
  check_ends_match(sends, receives);
  replay_schedule(schedule, {}, queues);
  return holds;
}

}  // namespace viaduct
