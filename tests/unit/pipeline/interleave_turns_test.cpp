// Forwards and backwards of segments in turn, cut where an exchange is in flight.

#include "pipeline/interleave_turns.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/world.h"
#include "pipeline/executor.h"
#include "pipeline/schedule.h"
#include "pipeline/validate_schedule.h"
#include "unit/pipeline/toy_stage.h"

namespace viaduct {
namespace {

/// "F1[0,3)": segments of a forward; backwards are B, their halves I and W; "e" is the end.
std::string text(const ActionList& actions) {
  std::string list;
  const auto place = [](int at) {
    if (at == SegmentRange::kEnd) return std::string("e");
    return at == SegmentRange::kEnd - 1 ? std::string("e-1") : std::to_string(at);
  };
  for (const Action& action : actions) {
    if (!computes(action.kind)) continue;
    list += fmt::format("{}{}{}", list.empty() ? "" : " ", "FBIW"[static_cast<int>(action.kind)],
                        action.micro_batch);
    if (!action.segments.is_whole())
      list += fmt::format("[{},{})", place(action.segments.begin), place(action.segments.end));
  }
  return list;
}

ScheduleSettings one_stage(int64_t micro_batches) {
  ScheduleSettings settings;
  settings.micro_batches = micro_batches;
  settings.combines = true;
  return settings;
}

TEST(InterleaveTurns, OneStageRunsOneForwardAhead) {
  EXPECT_EQ(text(stage_schedule(one_stage(3), 0)), "F0 F1 B0 F2 B1 B2");
  EXPECT_EQ(text(stage_schedule(one_stage(1), 0)), "F0 B0");
}

TEST(InterleaveTurns, TheBackwardBeginsAndTheOtherComputesWhileItsExchangeIsUnderWay) {
  const ActionList actions = stage_schedule(one_stage(2), 0);
  EXPECT_EQ(text(interleave_turns(actions, {{{2, 5}, true}}, false)),
            "F0 B0[5,e) F1[0,2) B0[2,5) F1[2,5) B0[0,2) F1[5,e) B1");
  EXPECT_EQ(text(interleave_turns(actions, {{{}, true}}, false)), "F0 B0 F1 B1")
      << "a chunk without exchanges";
}

TEST(InterleaveTurns, WeightHalvesFollowTheBeginOfTheExchange) {
  const ActionList actions = stage_schedule(one_stage(2), 0);
  EXPECT_EQ(text(interleave_turns(actions, {{{2, 5}, true}}, true)),
            "F0 B0[e-1,e) I0[5,e-1) W0[5,e-1) F1[0,2) I0[2,5) W0[2,5) F1[2,5) B0[0,2) F1[5,e) "
            "B1[e-1,e) I1[5,e-1) W1[5,e-1) I1[2,5) W1[2,5) B1[0,2)");
  EXPECT_EQ(text(interleave_turns(actions, {{{5}, false}}, true)),
            "F0 I0[5,e) W0[5,e) F1[0,5) B0[0,5) F1[5,e) I1[5,e) W1[5,e) B1[0,5)")
      << "a chunk without a head";
}

TEST(InterleaveTurns, MarksStandAtTheEndsOfThePieces) {
  const ActionList list = interleave_turns(stage_schedule(one_stage(2), 0), {{{2, 5}, true}}, true);
  int begins = 0, last = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    begins += list[i].begins >= 0;
    last += list[i].last_gradient;
    EXPECT_FALSE(list[i].combined);
  }
  EXPECT_EQ(begins, 1);
  EXPECT_EQ(last, 1);
  EXPECT_EQ(list.front().begins, 0);
  EXPECT_TRUE(list.back().last_gradient);
}

std::vector<ScheduleSettings> pipelines() {
  std::vector<ScheduleSettings> list;
  for (const int pp : {2, 3}) {
    for (const PointToPoint messages : {PointToPoint::overlapped, PointToPoint::batched}) {
      ScheduleSettings s{ScheduleKind::interleaved, pp, 2, 3 * int64_t{pp}, 0, messages};
      s.combines = true;
      list.push_back(s);
      s.deferred_heads = 2;
      list.push_back(s);
    }
    ScheduleSettings v{ScheduleKind::dualpipe_v, pp, 2, 2 * int64_t{pp} + 2};
    v.combines = true;
    list.push_back(v);
  }
  list.push_back(one_stage(4));
  return list;
}

// A combined pair has no message between its two parts, and both have their inputs before.
TEST(InterleaveTurns, PipelinesAreValidAndGiveTheSumsOfOneRank) {
  for (const ScheduleSettings& s : pipelines()) {
    for (const bool delays : {false, true}) {
      SCOPED_TRACE(fmt::format("{} pp {} messages {} heads {} delays {}",
                               schedule_kind_name(s.kind), s.pp, int(s.messages), s.deferred_heads,
                               delays));
      Schedule schedule = make_schedule(s);
      int64_t combined = 0;
      for (const Action& action : schedule.stages.back()) combined += action.combined;
      EXPECT_GT(combined, 0);
      const std::vector<ChunkTurns> turns(static_cast<size_t>(s.virtual_stages), {{1}, false});
      for (ActionList& stage : schedule.stages) stage = interleave_turns(stage, turns, delays);
      validate_schedule(schedule);
      const auto expected = test::toy_result(int64_t{s.pp} * s.virtual_stages, s.micro_batches);
      run_thread_ranks(s.pp, {.timeout_seconds = 30}, [&](std::shared_ptr<Communicator> world) {
        test::ToyStage toy(*world, s);
        run_schedule(schedule.stages[size_t(world->rank())], toy, *world);
        const StageOrder order = s.order();
        for (int chunk = 0; chunk < s.virtual_stages; ++chunk)
          EXPECT_EQ(toy.weight_gradients()[size_t(chunk)],
                    expected.gradients[size_t(order.virtual_stage(world->rank(), chunk))]);
        EXPECT_TRUE(toy.all_read());
      });
    }
  }
}

// One more forward runs ahead, so that a backward is not that of the forward beside it.
TEST(InterleaveTurns, WarmsUpByOneForwardMore) {
  for (int stage = 0; stage < 2; ++stage) {
    ScheduleSettings s{ScheduleKind::interleaved, 2, 2, 8};
    const auto plain = validate_schedule(make_schedule(s));
    s.combines = true;
    const auto holds = validate_schedule(make_schedule(s));
    EXPECT_EQ(holds[size_t(stage)].stores, plain[size_t(stage)].stores + 1);
  }
}

}  // namespace
}  // namespace viaduct
