// Small schedules written out, and invariants of all schedules.

#include "pipeline/schedule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "pipeline/compute_order.h"
#include "pipeline/replay_schedule.h"
#include "pipeline/validate_schedule.h"

namespace viaduct {
namespace {

using testing::HasSubstr;

// "F0 F1 B0": what a stage computes, chunks after a dot where there are several; backward halves
// are I and W, a backward without the head's weight gradient b, and that gradient H.
// "B0r": backward of micro-batch 0, all segments but the last; "W0l": the weight half of the last.
std::string computations(const ScheduleSettings& settings, int stage) {
  std::string text;
  for (const Action& action : stage_schedule(settings, stage)) {
    if (!computes(action.kind)) continue;
    const char letter = "FBIW"[static_cast<int>(action.kind)];
    text += (text.empty() ? "" : " ") + std::string(1, letter) + std::to_string(action.micro_batch);
    if (settings.virtual_stages > 1) text += "." + std::to_string(action.chunk);
    if (action.segments == kLastSegment) text += "l";
    if (action.segments == kAllButLastSegment) text += "r";
  }
  return text;
}

// ">A0:1" posts activations 0 to stage 1, "<G2:0" receives gradients 2 from stage 0, "." waits.
std::string all_actions(const ActionList& actions) {
  std::string text;
  for (const Action& action : actions) {
    if (!text.empty()) text += " ";
    const Message& m = action.message;
    if (computes(action.kind)) {
      text += (action.kind == ActionKind::forward ? "F" : "B") + std::to_string(action.micro_batch);
      continue;
    }
    text += std::string(action.kind == ActionKind::wait ? "." : "") + (m.outgoing ? ">" : "<") +
            (m.flow == Flow::activations ? "A" : "G") + std::to_string(m.sequence) + ":" +
            std::to_string(m.peer);
  }
  return text;
}

ScheduleSettings settings(ScheduleKind kind, int pp, int virtual_stages, int64_t micro_batches,
                          int64_t group = 0) {
  ScheduleSettings s;
  s.kind = kind, s.pp = pp, s.virtual_stages = virtual_stages, s.micro_batches = micro_batches;
  s.group = group;
  return s;
}

TEST(Schedule, OneForwardOneBackwardIsWrittenOut) {
  const auto s = settings(ScheduleKind::one_f_one_b, 3, 1, 4);
  EXPECT_EQ(computations(s, 0), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(computations(s, 1), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(computations(s, 2), "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST(Schedule, GpipeIsWrittenOut) {
  const auto s = settings(ScheduleKind::gpipe, 2, 1, 3);
  EXPECT_EQ(computations(s, 0), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(computations(s, 1), "F0 F1 F2 B0 B1 B2");
}

TEST(Schedule, ZeroBubbleIsWrittenOut) {
  const auto s = settings(ScheduleKind::zb_h1, 3, 1, 4);
  EXPECT_EQ(computations(s, 0), "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
  EXPECT_EQ(computations(s, 1), "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3");
  EXPECT_EQ(computations(s, 2), "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
}

// Two stages, five micro-batches: the first stage has the head in its second chunk.
TEST(Schedule, DualPipeVIsWrittenOut) {
  const auto s = settings(ScheduleKind::dualpipe_v, 2, 2, 5);
  EXPECT_EQ(computations(s, 0),
            "F0.0 F1.0 F2.0 F0.1 I0.1 W0.1 F1.1 F3.0 B1.1 F2.1 B0.0 F4.0 B2.1 F3.1 B1.0 B3.1 F4.1 "
            "B2.0 B4.1 I3.0 W3.0 I4.0 W4.0");
  EXPECT_EQ(computations(s, 1),
            "F0.0 F0.1 F1.0 F1.1 F2.0 B0.1 F2.1 B0.0 F3.0 B1.1 F3.1 B1.0 F4.0 B2.1 F4.1 B2.0 B3.1 "
            "B3.0 I4.1 I4.0 W4.1 W4.0");
}

// With a backward as long as two forwards: (pp − 1) (F&B + B − 3 W) where forward and backward are
// combined, as its authors count, and half of that where the forward is handed over before the
// backward begins. Each stage holds 2 pp + 1 micro-batches of a chunk, which is half a stage each.
TEST(Schedule, DualPipeVHasTheBubbleAndTheMemoryOfItsPaper) {
  for (const int pp : {2, 3, 4, 8}) {
    for (const int64_t micro_batches : {2 * pp, 2 * pp + 1, 5 * pp}) {
      for (const bool combines : {false, true}) {
        auto s = settings(ScheduleKind::dualpipe_v, pp, 2, micro_batches);
        s.combines = combines;
        const Schedule schedule = make_schedule(s);
        const auto holds = validate_schedule(schedule);
        const ScheduleTimes times = replay_schedule(schedule);
        EXPECT_EQ(times.busy, 6 * static_cast<double>(micro_batches));
        EXPECT_EQ(times.end - times.busy, (pp - 1) * (combines ? 3 + 2 - 3.0 : 1.0))
            << pp << " " << micro_batches;
        for (const StageHolds& stage : holds) EXPECT_EQ(stage.stores, 2 * pp + 1);
      }
    }
  }
}

TEST(Schedule, DualPipeVRefusesWhatItCannotRun) {
  const auto expect_refused = [](const ScheduleSettings& s, const char* why) {
    try {
      check_schedule_settings(s);
      ADD_FAILURE() << "accepted: " << why;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  };
  auto s = settings(ScheduleKind::dualpipe_v, 2, 2, 3);
  expect_refused(s, "3 micro-batches are fewer than 2 · pipeline_model_parallel_size = 4");
  s.backward = false;
  check_schedule_settings(s);
  expect_refused(settings(ScheduleKind::dualpipe_v, 2, 3, 8), "2 virtual stages, found 2 and 3");
  s = settings(ScheduleKind::dualpipe_v, 2, 2, 8);
  s.messages = PointToPoint::batched;
  expect_refused(s, "needs messages that are overlapped");
  s = settings(ScheduleKind::one_f_one_b, 2, 1, 8);
  s.combines = true;
  expect_refused(s, "schedule 1f1b of 2 stages does not combine forwards with backwards");
  try {
    parse_schedule_kind("dualpipe");
    ADD_FAILURE() << "dualpipe was accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("twice the memory"));
    EXPECT_THAT(error.what(), HasSubstr("dualpipe_v"));
  }
}

// Two stages of two chunks, groups of two: warm-up 2 (pp − p − 1) + (V − 1) g = 4 and 2.
TEST(Schedule, InterleavedIsWrittenOut) {
  const auto s = settings(ScheduleKind::interleaved, 2, 2, 4);
  EXPECT_EQ(computations(s, 0),
            "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
  EXPECT_EQ(computations(s, 1),
            "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
}

// Warm-up counts of Megatron-Core: 2 (pp − p − 1) + (V − 1) g, at most all.
TEST(Schedule, InterleavedWarmsUpByTheFormula) {
  for (const int64_t group : {4, 5, 8}) {
    for (int stage = 0; stage < 4; ++stage) {
      const auto steps =
          compute_order(settings(ScheduleKind::interleaved, 4, 3, 8 * group, group), stage);
      int64_t warmup = 0;
      while (!steps[static_cast<size_t>(warmup)].steady) ++warmup;
      EXPECT_EQ(warmup, 2 * (4 - stage - 1) + 2 * group);
    }
  }
  const auto all = compute_order(settings(ScheduleKind::interleaved, 4, 2, 4), 0);
  EXPECT_EQ(all.size(), 16u) << "8 forwards, 8 backwards";
  for (const Step& step : all) EXPECT_FALSE(step.steady) << "8 forwards, a warm-up of 10";
}

ScheduleSettings in_front(int front, ScheduleSettings s) {
  s.front_stages = front, s.pp += front;
  return s;
}

// Stages of an encoder have one chunk, those behind them two, in the order that they have alone.
TEST(Schedule, StagesInFrontOfChunksAreWrittenOut) {
  const auto alone = settings(ScheduleKind::interleaved, 2, 2, 8), s = in_front(2, alone);
  EXPECT_EQ(computations(s, 0),
            "F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 B0.0 F6.0 B1.0 F7.0 B2.0 B3.0 B4.0 B5.0 B6.0 B7.0");
  EXPECT_EQ(computations(s, 1),
            "F0.0 F1.0 F2.0 F3.0 F4.0 B0.0 F5.0 B1.0 F6.0 B2.0 F7.0 B3.0 B4.0 B5.0 B6.0 B7.0");
  for (int stage = 0; stage < 2; ++stage)
    EXPECT_EQ(computations(s, 2 + stage), computations(alone, stage));
}

// Where all stages have equal work the bubble is that of 1F1B over all of them; no stage in front
// could hold fewer micro-batches without a longer one.
TEST(Schedule, StagesInFrontAddThemselvesToTheBubble) {
  for (const int front : {1, 2, 3}) {
    for (const int pp : {2, 4}) {
      for (const int v : {2, 3, 4}) {
        const int64_t micro_batches = 6 * pp;
        const Schedule schedule = make_schedule(
            in_front(front, settings(ScheduleKind::interleaved, pp, v, micro_batches)));
        EXPECT_DOUBLE_EQ(replay_schedule(schedule).bubble_fraction(),
                         double(front + pp - 1) / double(micro_batches))
            << front << " " << pp << " " << v;
      }
    }
  }
  const auto holds =
      validate_schedule(make_schedule(in_front(2, settings(ScheduleKind::interleaved, 4, 2, 32))));
  EXPECT_EQ(holds[0].stores, 11);
  EXPECT_EQ(holds[1].stores, 10);
  EXPECT_EQ(holds[2].stores, 11) << "chunks of half a stage, as without an encoder";
}

// Shorter ones add their share, up to that of a chunk.
TEST(Schedule, ShortStagesInFrontLeaveTheBubbleOfChunks) {
  for (const int v : {2, 4}) {
    for (const double share : {0.0, 0.1, 1.0 / v}) {
      ComputeTimes times;
      times.front = share;
      const Schedule schedule =
          make_schedule(in_front(2, settings(ScheduleKind::interleaved, 4, v, 16)));
      EXPECT_NEAR(replay_schedule(schedule, times).bubble_fraction(), (2 * share + 3.0 / v) / 16,
                  1e-9)
          << v << " " << share;
    }
  }
}

// Longer ones than a chunk are what the decoder waits for (the rules pp-without-vpp and
// vpp-too-large count on it).
TEST(Schedule, LongStagesInFrontLeaveTheBubbleOfTheirOwn) {
  for (const int v : {1, 2, 4}) {
    for (const double share : {0.6, 0.8, 1.0}) {
      if (share * v < 1) continue;
      ComputeTimes times;
      times.front = share;
      const Schedule schedule = make_schedule(in_front(
          2, settings(v == 1 ? ScheduleKind::one_f_one_b : ScheduleKind::interleaved, 4, v, 16)));
      EXPECT_NEAR(replay_schedule(schedule, times).bubble_fraction(), (2 + 3) * share / 16, 1e-9)
          << v << " " << share;
    }
  }
}

// What comes from the front waits at the receiver: at most a group, less what is used meanwhile.
TEST(Schedule, AFewMessagesFromTheFrontWaitAtTheReceiver) {
  for (const int64_t group : {4, 8}) {
    const auto alone = settings(ScheduleKind::interleaved, 4, 2, 32, group);
    const auto without = validate_schedule(make_schedule(alone)),
               with = validate_schedule(make_schedule(in_front(1, alone)));
    EXPECT_LE(with[1].buffers, without[0].buffers + group);
    EXPECT_LE(with[0].buffers, 2 + group);
  }
}

TEST(Schedule, ChunksBehindAFrontBeginAndAreReducedTogether) {
  const auto alone = settings(ScheduleKind::interleaved, 2, 2, 4), s = in_front(1, alone);
  for (int stage = 0; stage < 2; ++stage) {
    const auto marks = [](const ActionList& actions) {
      std::string text;
      for (const Action& action : actions) {
        if (action.begins >= 0)
          text += fmt::format("{} begins {}; ", describe(action), action.begins);
        if (action.reduces >= 0)
          text += fmt::format("{} reduces {}; ", describe(action), action.reduces);
      }
      return text;
    };
    EXPECT_EQ(marks(stage_schedule(s, 1 + stage)), marks(stage_schedule(alone, stage)));
  }
}

TEST(Schedule, GroupsMayEndShort) {
  std::string text;
  for (const ForwardNumber& n : interleaved_order(2, 5, 3))
    text += std::to_string(n.micro_batch) + "." + std::to_string(n.chunk) + " ";
  EXPECT_EQ(text, "0.0 1.0 2.0 0.1 1.1 2.1 3.0 4.0 3.1 4.1 ");
}

TEST(Schedule, OverlappedMessagesArePostedAheadAndWaitedForJustBefore) {
  const auto s = settings(ScheduleKind::one_f_one_b, 2, 1, 2);
  EXPECT_EQ(all_actions(stage_schedule(s, 0)),
            "F0 >A0:1 <G0:1 F1 .>A0:1 >A1:1 <G1:1 .<G0:1 B0 .<G1:1 B1 .>A1:1");
  EXPECT_EQ(all_actions(stage_schedule(s, 1)),
            "<A0:0 .<A0:0 F0 <A1:0 B0 >G0:0 .<A1:0 F1 B1 .>G0:0 >G1:0 .>G1:0");
}

TEST(Schedule, BatchedMessagesArePostedAndWaitedForTogether) {
  auto s = settings(ScheduleKind::one_f_one_b, 2, 1, 2);
  s.messages = PointToPoint::batched;
  EXPECT_EQ(all_actions(stage_schedule(s, 0)),
            "F0 >A0:1 .>A0:1 F1 >A1:1 <G0:1 .<G0:1 .>A1:1 B0 <G1:1 .<G1:1 B1");
  EXPECT_EQ(all_actions(stage_schedule(s, 1)),
            "<A0:0 .<A0:0 F0 B0 >G0:0 <A1:0 .<A1:0 .>G0:0 F1 B1 >G1:0 .>G1:0");
}

TEST(Schedule, OddStagesReceiveFirstWhereMessagesGoOneByOne) {
  auto s = settings(ScheduleKind::one_f_one_b, 3, 1, 4);
  s.messages = PointToPoint::ordered;
  EXPECT_THAT(all_actions(stage_schedule(s, 0)), HasSubstr("F2 >A2:1 .>A2:1 <G0:1 .<G0:1 B0"));
  EXPECT_THAT(all_actions(stage_schedule(s, 1)), HasSubstr("F0 <A1:0 .<A1:0 >A0:2 .>A0:2 F1"));
}

TEST(Schedule, WithoutWarmupOverlapOnlySteadyMessagesStayUnderWay) {
  auto s = settings(ScheduleKind::one_f_one_b, 2, 1, 3);
  s.overlap_warmup_flush = false;
  EXPECT_EQ(all_actions(stage_schedule(s, 0)),
            "F0 >A0:1 .>A0:1 F1 >A1:1 <G0:1 .<G0:1 B0 <G1:1 F2 .>A1:1 >A2:1 <G2:1 .<G1:1 B1 "
            ".>A2:1 .<G2:1 B2");
}

// The head's weight gradients run in the order of their backwards, after the last stage has posted
// its last message and before it waits for it; other stages have none.
TEST(Schedule, DeferredHeadsComeLast) {
  auto s = settings(ScheduleKind::one_f_one_b, 2, 1, 3);
  s.deferred_heads = 2;
  EXPECT_EQ(computations(s, 0), "F0 F1 B0 F2 B1 B2");
  EXPECT_EQ(computations(s, 1), "F0 I0l B0r F1 I1l B1r F2 B2 W0l W1l");
  const ActionList last = stage_schedule(s, 1);
  EXPECT_EQ(last.back().kind, ActionKind::wait);
  const auto at = [&](ActionKind kind) {
    const auto is = [&](const Action& action) { return action.kind == kind; };
    return std::find_if(last.rbegin(), last.rend(), is).base() - last.begin();
  };
  EXPECT_EQ(at(ActionKind::backward_weight), at(ActionKind::post_send) + 2);
  s.deferred_heads = 100;
  EXPECT_EQ(computations(s, 1), "F0 I0l B0r F1 I1l B1r F2 I2l B2r W0l W1l W2l");
  s.kind = ScheduleKind::gpipe;
  EXPECT_EQ(computations(s, 1), "F0 F1 F2 I0l B0r I1l B1r I2l B2r W0l W1l W2l");
  // The last stage finishes its first chunk last; the head is in the last chunk.
  auto chunks = settings(ScheduleKind::interleaved, 2, 2, 2);
  chunks.deferred_heads = 100;
  EXPECT_EQ(computations(chunks, 0), "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0");
  EXPECT_EQ(computations(chunks, 1),
            "F0.0 F1.0 F0.1 I0.1l B0.1r F1.1 I1.1l B1.1r B0.0 B1.0 W0.1l W1.1l");
  for (const Action& action : stage_schedule(chunks, 1)) {
    const bool head = action.kind == ActionKind::backward_weight, first = action.chunk == 0;
    EXPECT_EQ(action.last_gradient,
              (head || (first && action.kind == ActionKind::backward)) && action.micro_batch == 1);
  }
  s = settings(ScheduleKind::one_f_one_b, 4, 1, 8);
  s.deferred_heads = 3;
  const auto holds = validate_schedule(make_schedule(s));
  EXPECT_EQ(holds[3].parts, 3);
  EXPECT_EQ(holds[3].stores, 1);
  EXPECT_EQ(holds[0].parts, 0);
}

TEST(Schedule, ForwardsAloneThatWouldDeadlockAreRefused) {
  auto s = settings(ScheduleKind::interleaved, 2, 2, 1);
  s.backward = false;
  EXPECT_EQ(computations(s, 1), "F0.0 F0.1");
  s.messages = PointToPoint::ordered;
  EXPECT_THROW(make_schedule(s), ConfigError);
}

TEST(Schedule, FlagsMarkTheFirstForwardAndTheLastGradient) {
  const auto actions = stage_schedule(settings(ScheduleKind::zb_h1, 2, 1, 3), 1);
  for (const Action& action : actions) {
    EXPECT_EQ(action.begins,
              action.kind == ActionKind::forward && action.micro_batch == 0 ? 0 : -1);
    EXPECT_EQ(action.last_gradient,
              action.kind == ActionKind::backward_weight && action.micro_batch == 2);
  }
}

// Megatron-Core's alignment of gradients: stage p reduces chunk c after its backward k if k − p is
// the last of c.
TEST(Schedule, StagesReduceAChunkAtOneVirtualMicroBatch) {
  const auto s = settings(ScheduleKind::interleaved, 4, 3, 8);
  for (int stage = 0; stage < s.pp; ++stage) {
    std::vector<int> complete;  // by backward: the chunk that it completes
    std::vector<int> reduced;
    for (const Action& action : stage_schedule(s, stage)) {
      if (action.kind != ActionKind::backward) {
        EXPECT_EQ(action.reduces, -1) << describe(action);
        continue;
      }
      complete.push_back(action.last_gradient ? action.chunk : -1);
      const auto number = static_cast<int>(complete.size()) - 1;
      EXPECT_EQ(action.reduces,
                number < stage ? -1 : complete[static_cast<size_t>(number - stage)]);
      if (action.reduces >= 0) reduced.push_back(action.reduces);
    }
    // Chunk 0 is complete with the stage's last backward: only the first stage has no backward
    // after it.
    EXPECT_EQ(reduced, stage == 0 ? (std::vector<int>{2, 1, 0}) : (std::vector<int>{2, 1}));
  }
}

TEST(Schedule, AChunkWhoseHeadWaitsIsReducedAtTheEnd) {
  auto s = settings(ScheduleKind::interleaved, 2, 2, 2);
  s.deferred_heads = 100;
  for (const Action& action : stage_schedule(s, 1)) EXPECT_NE(action.reduces, 1);
}

// Megatron-Core's alignment: stage p begins chunk c at its forward k if k + p is the first of c.
TEST(Schedule, StagesBeginAChunkAtOneVirtualMicroBatch) {
  for (const int64_t group : {4, 6}) {
    const auto s = settings(ScheduleKind::interleaved, 4, 3, 2 * group, group);
    for (int stage = 0; stage < s.pp; ++stage) {
      std::vector<int64_t> begun;
      int64_t number = 0;
      for (const Action& action : stage_schedule(s, stage)) {
        if (action.begins >= 0) {
          EXPECT_EQ(action.kind, ActionKind::forward);
          EXPECT_EQ(action.begins, int(begun.size()));
          begun.push_back(number);
        }
        if (action.kind == ActionKind::forward) ++number;
      }
      EXPECT_THAT(begun, testing::ElementsAre(0, group - stage, 2 * group - stage)) << stage;
    }
  }
}

TEST(Schedule, OneStageIsThePlainLoopWithoutMessages) {
  const auto actions = stage_schedule(settings(ScheduleKind::one_f_one_b, 1, 1, 3), 0);
  EXPECT_EQ(all_actions(actions), "F0 B0 F1 B1 F2 B2");
}

TEST(Schedule, BubbleIsThatOfTheFormula) {
  const ComputeTimes times{1, 1, 1};
  for (const int pp : {1, 2, 4, 8}) {
    for (const int64_t micro_batches : {8, 16, 24}) {
      const auto bubble = [&](ScheduleKind kind, int virtual_stages) {
        return replay_schedule(make_schedule(settings(kind, pp, virtual_stages, micro_batches)),
                               times)
            .bubble_fraction();
      };
      const double expected = double(pp - 1) / double(micro_batches);
      EXPECT_DOUBLE_EQ(bubble(ScheduleKind::one_f_one_b, 1), expected) << pp;
      EXPECT_DOUBLE_EQ(bubble(ScheduleKind::gpipe, 1), expected) << pp;
      // Qi et al. 2023, table 2: (pp − 1) (F + B − W) of (F + B + W) a micro-batch.
      EXPECT_DOUBLE_EQ(bubble(ScheduleKind::zb_h1, 1), expected / 3) << pp;
      for (const int v : {2, 3}) {
        if (pp > 1) {
          EXPECT_DOUBLE_EQ(bubble(ScheduleKind::interleaved, v), expected / v) << pp << " " << v;
        }
      }
    }
  }
}

TEST(Schedule, StagesHoldWhatThePapersSay) {
  const auto stores = [](ScheduleKind kind, int pp, int64_t micro_batches) {
    std::vector<int64_t> list;
    for (const auto& holds : validate_schedule(make_schedule(settings(kind, pp, 1, micro_batches))))
      list.push_back(holds.stores);
    return list;
  };
  EXPECT_THAT(stores(ScheduleKind::one_f_one_b, 4, 8), testing::ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(stores(ScheduleKind::gpipe, 4, 8), testing::Each(8));
  EXPECT_THAT(stores(ScheduleKind::zb_h1, 4, 8), testing::Each(4)) << "the peak of 1F1B";
  EXPECT_THAT(stores(ScheduleKind::one_f_one_b, 4, 2), testing::ElementsAre(2, 2, 2, 1));
}

struct Case {
  ScheduleSettings settings;
  std::string name;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  const auto add = [&](ScheduleSettings s) {
    for (const PointToPoint messages :
         {PointToPoint::overlapped, PointToPoint::batched, PointToPoint::ordered}) {
      for (const bool flush : {true, false}) {
        for (const bool backward : {true, false}) {
          if (messages != PointToPoint::overlapped && !flush) continue;
          if (messages == PointToPoint::ordered && s.kind == ScheduleKind::zb_h1) continue;
          s.messages = messages, s.overlap_warmup_flush = flush, s.backward = backward;
          cases.push_back(
              {s, fmt::format("{} pp {} V {} M {} g {} messages {} flush {} backward {}",
                              schedule_kind_name(s.kind), s.pp, s.virtual_stages, s.micro_batches,
                              s.group, int(messages), flush, backward)});
        }
      }
    }
  };
  for (const int pp : {1, 2, 3, 4, 5, 8}) {
    for (const int64_t m : {1, 2, 3, 4, 7, 8, 12}) {
      for (const ScheduleKind kind :
           {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zb_h1})
        add(settings(kind, pp, 1, m));
      if (pp == 1 || m < pp) continue;
      for (const int v : {2, 3, 4}) {
        for (int64_t g = pp; g <= m; ++g) {
          if (m % g == 0 || m % g >= pp) add(settings(ScheduleKind::interleaved, pp, v, m, g));
        }
      }
    }
  }
  const auto add_front = [&](const ScheduleSettings& behind) {
    for (const int front : {1, 4}) {
      for (const bool backward : {true, false}) {
        ScheduleSettings s = in_front(front, behind);
        s.backward = backward;
        cases.push_back({s, fmt::format("{} front {} pp {} V {} M {} g {} combines {} backward {}",
                                        schedule_kind_name(s.kind), front, s.pp, s.virtual_stages,
                                        s.micro_batches, s.group, s.combines, backward)});
      }
    }
  };
  for (const int pp : {2, 3, 4}) {
    for (const int64_t m : {4, 7, 9, 16}) {
      for (const int v : {2, 3}) {
        for (int64_t g = pp; g <= m; ++g) {
          if (m % g != 0 && m % g < pp) continue;
          auto s = settings(ScheduleKind::interleaved, pp, v, m, g);
          add_front(s);
          if (g > pp) continue;
          s.deferred_heads = 3;
          add_front(s);
          s.deferred_heads = 0, s.combines = true;
          add_front(s);
        }
      }
      if (m < 2 * pp) continue;
      auto s = settings(ScheduleKind::dualpipe_v, pp, 2, m);
      add_front(s);
      s.combines = true;
      add_front(s);
    }
  }
  return cases;
}

TEST(Schedule, AllCanBeRun) {
  size_t count = 0;
  for (const Case& c : all_cases()) {
    try {
      const auto holds = validate_schedule(make_schedule(c.settings));
      EXPECT_EQ(holds.size(), size_t(c.settings.pp));
    } catch (const CommError& error) {
      ADD_FAILURE() << c.name << ": " << error.what();
    }
    ++count;
  }
  EXPECT_GT(count, 1000u);
}

TEST(Schedule, WeightGradientsAddUpInTheOrderOfMicroBatches) {
  for (const Case& c : all_cases()) {
    for (int stage = 0; stage < c.settings.pp; ++stage) {
      std::vector<int64_t> next(size_t(c.settings.virtual_stages));
      for (const Action& action : stage_schedule(c.settings, stage)) {
        if (action.segments == kLastSegment) continue;  // of the head: maybe deferred
        if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_weight) {
          ASSERT_EQ(action.micro_batch, next[size_t(action.chunk)]++) << c.name;
        }
      }
    }
  }
}

// No message is later with overlap than with batching.
TEST(Schedule, MessagesUnderWayCostNoTime) {
  for (const int pp : {2, 4}) {
    auto s = settings(ScheduleKind::interleaved, pp, 2, 8);
    const double overlapped = replay_schedule(make_schedule(s)).end;
    s.messages = PointToPoint::batched;
    EXPECT_LE(overlapped, replay_schedule(make_schedule(s)).end);
  }
}

std::string problem(const ScheduleSettings& s) {
  try {
    make_schedule(s);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Schedule, SettingsThatDoNotFitNameBothNumbers) {
  EXPECT_THAT(problem(settings(ScheduleKind::interleaved, 4, 2, 3)),
              HasSubstr("3 micro-batches are fewer than pipeline_model_parallel_size 4"));
  EXPECT_THAT(problem(settings(ScheduleKind::interleaved, 4, 2, 8, 3)),
              HasSubstr("group_size_per_vp_stage 3 is outside [pipeline_model_parallel_size 4, "
                        "micro-batches 8]; nearest: 4"));
  EXPECT_THAT(problem(settings(ScheduleKind::interleaved, 4, 2, 10, 8)),
              HasSubstr("8 leaves 2 of 10 micro-batches, fewer than "
                        "pipeline_model_parallel_size 4; nearest: 8 or 12 micro-batches"));
  EXPECT_THAT(problem(settings(ScheduleKind::interleaved, 1, 2, 8)),
              HasSubstr("2 virtual stages need pipeline_model_parallel_size above 1"));
  EXPECT_THAT(problem(in_front(1, settings(ScheduleKind::interleaved, 1, 2, 8))),
              HasSubstr("2 virtual stages need pipeline_model_parallel_size above 1, which is 1"));
  EXPECT_THAT(problem(in_front(2, settings(ScheduleKind::interleaved, 4, 2, 3))),
              HasSubstr("3 micro-batches are fewer than pipeline_model_parallel_size 4"));
  auto blocking = in_front(1, settings(ScheduleKind::interleaved, 2, 2, 8));
  blocking.messages = PointToPoint::batched;
  EXPECT_THAT(problem(blocking), HasSubstr("need messages that are overlapped"));
  auto none_behind = settings(ScheduleKind::one_f_one_b, 2, 1, 8);
  none_behind.front_stages = 2;
  EXPECT_THAT(problem(none_behind), HasSubstr("stages in front: 2 of 2; expected at least one"));
  EXPECT_THAT(problem(settings(ScheduleKind::one_f_one_b, 2, 2, 8)),
              HasSubstr("schedule 1f1b has one virtual stage, but 2 were requested"));
  auto zero_bubble = settings(ScheduleKind::zb_h1, 2, 1, 4);
  zero_bubble.messages = PointToPoint::ordered;
  EXPECT_THAT(problem(zero_bubble), HasSubstr("zb-h1 needs overlapped or batched messages"));
  EXPECT_THAT(problem(settings(ScheduleKind::one_f_one_b, 2, 1, 0)),
              HasSubstr("micro-batches: 0 is below 1"));
  EXPECT_THAT(
      [] {
        try {
          parse_schedule_kind("interleavd");
        } catch (const ConfigError& error) {
          return std::string(error.what());
        }
        return std::string();
      }(),
      HasSubstr("did you mean interleaved?"));
}

}  // namespace
}  // namespace viaduct
