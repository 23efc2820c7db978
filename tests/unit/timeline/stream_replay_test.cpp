// What streams are given by micro-batches that were left out: the edges are those of a program that
// runs them all, or the record says that it cannot be expanded.

#include "timeline/stream_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <tuple>

namespace viaduct {
namespace {

using testing::HasSubstr;

constexpr int kCompute = 0, kSide = 1;

/// A program of actions that gives work to streams, as a device records it. Micro-batches 3 and 4
/// of six are instances of 2 unless all run.
class Program {
 public:
  using Act = std::function<void(Program&, int64_t micro_batch, int64_t number)>;
  using Schedule = std::vector<std::pair<int64_t, int64_t>>;  // micro-batch, number

  Program(const Schedule& schedule, bool all, const Act& act) {
    record_.set_timed(false);
    record_.set_with_stream_calls(true);
    for (const auto& [micro_batch, number] : schedule) {
      const bool instance = !all && (micro_batch == 3 || micro_batch == 4);
      actions_.push_back({.micro_batch = micro_batch,
                          .recorded_as = instance ? 2 : micro_batch,
                          .number = number,
                          .calls_begin = calls(),
                          .calls_end = calls()});
      if (instance) continue;
      act(*this, micro_batch, number);
      actions_.back().calls_end = calls();
    }
  }

  void work(int stream) {
    record_.stream_call({.stream = stream, .position = clocks_.launched(stream)});
  }
  Event event(int stream) {
    Event event = clocks_.event(stream);
    event.calls = calls();
    return event;
  }
  void wait(int stream, const Event& event) {
    const bool behind = clocks_.is_behind(stream, event);
    const int64_t position = behind ? clocks_.position(stream) : clocks_.launched(stream);
    record_.stream_call({.stream = stream,
                         .from_stream = event.stream,
                         .position = position,
                         .from_calls = event.calls,
                         .takes_position = !behind});
    if (behind) return;
    record_.edge({event.stream, event.position, stream, position});
    clocks_.waited(stream, event);
  }
  StepRecord& record() { return record_; }

  /// What `StreamReplay` makes of it.
  std::vector<StreamEdgeRecord> replayed(std::optional<std::string>& against) const {
    StreamReplay replay(record_);
    for (const ActionRecord& action : actions_) {
      if (action.ran()) continue;
      const auto recorded =
          std::find_if(actions_.begin(), actions_.end(), [&](const ActionRecord& other) {
            return other.micro_batch == action.recorded_as && other.number == action.number;
          });
      replay.enter(action, *recorded);
      replay.leave();
    }
    replay.finish();
    against = replay.against();
    return replay.take_edges();
  }

 private:
  int64_t calls() const { return static_cast<int64_t>(record_.stream_calls().size()); }

  StepRecord record_;
  StreamClocks clocks_{2};
  std::vector<ActionRecord> actions_;
};

using Edge = std::tuple<int, int64_t, int, int64_t>;
std::vector<Edge> plain(const std::vector<StreamEdgeRecord>& edges) {
  std::vector<Edge> list;
  for (const StreamEdgeRecord& e : edges)
    list.emplace_back(e.from_stream, e.from_position, e.to_stream, e.to_position);
  return list;
}

void expect_expanded(const Program::Schedule& schedule, const Program::Act& act) {
  Program all(schedule, true, act), cut(schedule, false, act);
  std::optional<std::string> against;
  const auto replayed = cut.replayed(against);
  EXPECT_EQ(against, std::nullopt);
  EXPECT_LT(cut.record().edges().size(), all.record().edges().size());
  EXPECT_EQ(plain(replayed), plain(all.record().edges()));
}

/// Both actions of each micro-batch before those of the next one.
Program::Schedule in_turn() {
  Program::Schedule schedule;
  for (int64_t i = 0; i < 6; ++i) schedule.insert(schedule.end(), {{i, 0}, {i, 1}});
  return schedule;
}

// An operation of an action that a later one waits for, with those of others in between.
TEST(StreamReplay, AnEventIsThatOfTheInstance) {
  std::map<int64_t, Event> complete;
  const Program::Schedule schedule = {{0, 0}, {1, 0}, {0, 1}, {2, 0}, {1, 1}, {3, 0},
                                      {4, 0}, {2, 1}, {3, 1}, {5, 0}, {4, 1}, {5, 1}};
  expect_expanded(schedule, [&](Program& program, int64_t micro_batch, int64_t number) {
    program.work(kCompute);
    if (number == 0) {
      program.wait(kSide, program.event(kCompute));
      program.work(kSide);
      complete[micro_batch] = program.event(kSide);
    } else {
      program.wait(kCompute, complete[micro_batch]);
      program.work(kCompute);
    }
  });
}

// The side stream waits for compute, which has done something since the last wait, or not: that is
// another matter for an instance than for the micro-batch that stands for it.
TEST(StreamReplay, WhetherAWaitChangesAnythingIsDecidedAnew) {
  const Program::Schedule schedule = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1},
                                      {3, 0}, {4, 0}, {3, 1}, {4, 1}, {5, 0}, {5, 1}};
  expect_expanded(schedule, [](Program& program, int64_t, int64_t number) {
    if (number == 0) return program.work(kCompute);
    program.wait(kSide, program.event(kCompute));
    program.work(kSide);
  });
}

std::optional<std::string> against(const Program::Act& act,
                                   const std::function<void(Program&)>& more = {}) {
  Program cut(in_turn(), false, act);
  if (more) more(cut);
  std::optional<std::string> found;
  cut.replayed(found);
  return found;
}

TEST(StreamReplay, AnEventOfAnotherMicroBatchSpeaksAgainstIt) {
  Event last;
  const auto found = against([&](Program& program, int64_t, int64_t number) {
    if (number == 0) {
      program.wait(kCompute, last);
      program.work(kCompute);
    } else {
      program.work(kSide);
      last = program.event(kSide);
      program.work(kCompute);
    }
  });
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(*found, HasSubstr("outside of the micro-batch"));
}

// Ops of a side stream hold their tensors until compute has waited for the stream.
TEST(StreamReplay, OpsOfASideStreamSpeakAgainstIt) {
  const auto act = [](Program& program, int64_t, int64_t number) {
    program.work(kCompute);
    if (number == 0) program.work(kSide);
  };
  EXPECT_EQ(against(act), std::nullopt);
  const auto found = against(act, [](Program& program) {
    OpEntryRecord op;
    op.stream = kSide;
    program.record().op(std::move(op));
  });
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(*found, HasSubstr("holds memory"));
}

}  // namespace
}  // namespace viaduct
