// Invalid schedules are rejected, each by the rule that it breaks.

#include "pipeline/validate_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace viaduct {
namespace {

using testing::HasSubstr;

Schedule schedule(ScheduleKind kind = ScheduleKind::one_f_one_b, int pp = 3, int virtual_stages = 1,
                  int64_t micro_batches = 4) {
  ScheduleSettings s;
  s.kind = kind, s.pp = pp, s.virtual_stages = virtual_stages, s.micro_batches = micro_batches;
  return make_schedule(s);
}

std::string problem(const Schedule& schedule) {
  try {
    validate_schedule(schedule);
  } catch (const CommError& error) {
    return error.what();
  }
  return "valid";
}

ActionList::iterator find(ActionList& list, ActionKind kind, int64_t micro_batch,
                          Flow flow = Flow::activations, bool outgoing = false) {
  return std::find_if(list.begin(), list.end(), [&](const Action& a) {
    return a.kind == kind && a.micro_batch == micro_batch &&
           (computes(kind) || (a.message.flow == flow && a.message.outgoing == outgoing));
  });
}

TEST(ValidateSchedule, GoodOnesPass) {
  EXPECT_EQ(problem(schedule()), "valid");
}

// On a network with one queue for all messages between two stages, a message posted too early
// blocks one that the other stage waits for.
TEST(ValidateSchedule, MessagesThatOverlapNeedQueuesOfTheirOwn) {
  const auto in_one_queue = [](ScheduleKind kind, int virtual_stages, PointToPoint messages) {
    ScheduleSettings s;
    s.kind = kind, s.pp = 2, s.virtual_stages = virtual_stages, s.micro_batches = 4;
    s.messages = messages;
    try {
      validate_schedule(make_schedule(s), MessageQueues::per_pair);
    } catch (const CommError& error) {
      return std::string(error.what());
    }
    return std::string("valid");
  };
  using Kind = ScheduleKind;
  EXPECT_EQ(problem(schedule(Kind::interleaved, 2, 2)), "valid");
  EXPECT_THAT(in_one_queue(Kind::interleaved, 2, PointToPoint::overlapped), HasSubstr("deadlock"));
  EXPECT_THAT(in_one_queue(Kind::one_f_one_b, 1, PointToPoint::overlapped), HasSubstr("deadlock"));
  EXPECT_EQ(in_one_queue(Kind::one_f_one_b, 1, PointToPoint::ordered), "valid");
  EXPECT_EQ(in_one_queue(Kind::interleaved, 2, PointToPoint::ordered), "valid");
}

TEST(ValidateSchedule, ADroppedReceiveIsCaught) {
  Schedule s = schedule();
  ActionList& list = s.stages[1];
  list.erase(find(list, ActionKind::post_receive, 2));
  EXPECT_THAT(problem(s), HasSubstr("stage 1"));
  // Without its wait too: the input is missing.
  s = schedule();
  ActionList& again = s.stages[1];
  again.erase(find(again, ActionKind::wait, 3));
  again.erase(find(again, ActionKind::post_receive, 3));
  EXPECT_THAT(problem(s), HasSubstr("stage 1: forward of micro-batch 3, chunk 0: its input was not "
                                    "received"));
}

TEST(ValidateSchedule, ADroppedSendIsCaught) {
  Schedule s = schedule();
  ActionList& list = s.stages[0];
  list.erase(find(list, ActionKind::wait, 3, Flow::activations, true));
  list.erase(find(list, ActionKind::post_send, 3, Flow::activations, true));
  EXPECT_THAT(problem(s), HasSubstr("activations from stage 0 to 1: 3 messages are sent and 4 "
                                    "received"));
}

TEST(ValidateSchedule, SwappedMessagesAreCaught) {
  Schedule s = schedule(ScheduleKind::gpipe);
  // Both ends are well formed separately: stage 1 takes micro-batches 0 and 1 in the other order.
  for (Action& action : s.stages[1]) {
    const bool incoming =
        action.kind == ActionKind::forward || (!computes(action.kind) && !action.message.outgoing &&
                                               action.message.flow == Flow::activations);
    if (incoming && action.micro_batch <= 1) {
      action.micro_batch = 1 - action.micro_batch;
      if (action.kind == ActionKind::forward) action.begins = action.micro_batch == 1 ? 0 : -1;
    }
  }
  for (Action& action : s.stages[1]) {
    if (!computes(action.kind) && action.message.outgoing &&
        action.message.flow == Flow::activations && action.micro_batch <= 1)
      action.micro_batch = 1 - action.micro_batch;
  }
  EXPECT_THAT(problem(s), HasSubstr("message 0 of activations from stage 0 to 1: micro-batch 0 of "
                                    "virtual stage 0 is sent, micro-batch 1 of virtual stage 0 "
                                    "expected"));
}

TEST(ValidateSchedule, ABackwardBeforeItsForwardIsCaught) {
  Schedule s = schedule(ScheduleKind::one_f_one_b, 1);
  std::swap(*find(s.stages[0], ActionKind::forward, 2),
            *find(s.stages[0], ActionKind::backward, 2));
  EXPECT_THAT(problem(s), HasSubstr("backward of micro-batch 2, chunk 0: comes twice, or before"));
}

TEST(ValidateSchedule, AWeightHalfBeforeItsInputHalfIsCaught) {
  Schedule s = schedule(ScheduleKind::zb_h1, 1);
  std::swap(*find(s.stages[0], ActionKind::backward_input, 1),
            *find(s.stages[0], ActionKind::backward_weight, 1));
  EXPECT_THAT(problem(s), HasSubstr("backward_weight of micro-batch 1"));
}

TEST(ValidateSchedule, MissingAndRepeatedWorkIsCaught) {
  Schedule s = schedule(ScheduleKind::zb_h1, 1);
  s.stages[0].erase(find(s.stages[0], ActionKind::backward_weight, 1));
  EXPECT_THAT(problem(s), HasSubstr("micro-batch 1 of chunk 0 is not finished"));
  s = schedule(ScheduleKind::one_f_one_b, 1);
  s.stages[0].insert(s.stages[0].begin() + 1, s.stages[0][0]);
  EXPECT_THAT(problem(s), HasSubstr("forward of micro-batch 0, chunk 0: comes twice"));
}

TEST(ValidateSchedule, HeadsOutOfPlaceAreCaught) {
  ScheduleSettings settings;
  settings.pp = 2, settings.micro_batches = 3, settings.deferred_heads = 2;
  const Schedule good = make_schedule(settings);
  EXPECT_EQ(problem(good), "valid");
  Schedule s = good;
  s.stages[1].erase(find(s.stages[1], ActionKind::backward_weight, 0));
  EXPECT_THAT(problem(s), HasSubstr("stage 1: micro-batch 0 of chunk 0 is not finished"));
  s = good;
  const auto head = find(s.stages[1], ActionKind::backward_weight, 0);
  s.stages[1].insert(head, Action(*head));
  const std::string late = "chunk 0, segments end − 1 to end: comes twice";
  EXPECT_THAT(problem(s), HasSubstr("stage 1: backward_weight of micro-batch 0, " + late));
  s = good;
  s.stages[1].insert(find(s.stages[1], ActionKind::backward_input, 1),
                     Action(*find(s.stages[1], ActionKind::backward_weight, 1)));
  EXPECT_THAT(problem(s), HasSubstr("backward_weight of micro-batch 1, " + late +
                                    ", or before its forward or the other part"));
}

// The ranges of segments must tile the chunk, in the order of the forward and of the backward.
TEST(ValidateSchedule, RangesThatDoNotTileTheirChunkAreCaught) {
  const auto range = [](ActionKind kind, int begin, int end) {
    return Action{kind, 0, 0, {begin, end}};
  };
  constexpr int kEnd = SegmentRange::kEnd;
  const auto check = [&](ActionList list) {
    list.front().begins = 0;
    list.back().last_gradient = true;
    return problem({1, 1, {std::move(list)}});
  };
  const ActionList forward{range(ActionKind::forward, 0, 2), range(ActionKind::forward, 2, kEnd)};
  const auto with = [&](const ActionList& more) {
    ActionList list = forward;
    list.insert(list.end(), more.begin(), more.end());
    return check(list);
  };
  const Action last = range(ActionKind::backward, kEnd - 1, kEnd),
               rest = range(ActionKind::backward, 0, kEnd - 1),
               input = range(ActionKind::backward_input, 0, kEnd - 1);
  EXPECT_EQ(with({last, rest}), "valid");
  EXPECT_EQ(with({last, input, range(ActionKind::backward_weight, 0, 1),
                  range(ActionKind::backward_weight, 3, kEnd - 1),
                  range(ActionKind::backward_weight, 1, 3)}),
            "valid");
  EXPECT_THAT(check({forward[0], range(ActionKind::forward, 3, kEnd), last, rest}),
              HasSubstr("forward of micro-batch 0, chunk 0, segments 3 to end"));
  EXPECT_THAT(with({rest, last}), HasSubstr("segments 0 to end − 1: comes twice, or before"));
  EXPECT_THAT(with({last, range(ActionKind::backward, 1, kEnd - 1)}), HasSubstr("is not finished"));
  EXPECT_THAT(with({last, input, range(ActionKind::backward_weight, 0, 2),
                    range(ActionKind::backward_weight, 1, kEnd - 1)}),
              HasSubstr("segments 1 to end − 1: comes twice"));
  EXPECT_THAT(with({range(ActionKind::backward_weight, kEnd - 1, kEnd), last, rest}),
              HasSubstr("or before its forward or the other part"));
}

TEST(SegmentRange, CountsFromBothEnds) {
  EXPECT_EQ(SegmentRange{}.among(5), (SegmentRange{0, 5}));
  EXPECT_EQ(kLastSegment.among(5), (SegmentRange{4, 5}));
  EXPECT_EQ(kAllButLastSegment.among(5), (SegmentRange{0, 4}));
  EXPECT_THROW(kAllButLastSegment.among(1), CommError);
  EXPECT_THROW((SegmentRange{2, 6}).among(5), CommError);
  // A chunk without layers has all of its segments, and nothing else.
  EXPECT_EQ(SegmentRange{}.among(0), (SegmentRange{0, 0}));
  EXPECT_THROW(kLastSegment.among(0), CommError);
  EXPECT_THROW((SegmentRange{2, 2}).among(5), CommError);
}

TEST(ValidateSchedule, WrongFlagsAreCaught) {
  Schedule s = schedule(ScheduleKind::one_f_one_b, 1);
  find(s.stages[0], ActionKind::backward, 1)->last_gradient = true;
  EXPECT_THAT(problem(s), HasSubstr("comes after the chunk's last_gradient"));
  s = schedule(ScheduleKind::one_f_one_b, 1);
  find(s.stages[0], ActionKind::backward, 3)->last_gradient = false;
  EXPECT_THAT(problem(s), HasSubstr("a chunk has no last_gradient"));
  s = schedule(ScheduleKind::one_f_one_b, 1);
  find(s.stages[0], ActionKind::forward, 0)->begins = -1;
  EXPECT_THAT(problem(s), HasSubstr("its chunk has not begun"));
  s = schedule(ScheduleKind::one_f_one_b, 1);
  find(s.stages[0], ActionKind::forward, 1)->begins = 0;
  EXPECT_THAT(problem(s), HasSubstr("begins a chunk that has begun"));
}

TEST(ValidateSchedule, ADeadlockNamesWhatEachStageWaitsFor) {
  // Send, wait, receive, wait on both sides: valid only with buffered sends.
  ScheduleSettings settings;
  settings.pp = 2, settings.micro_batches = 3, settings.messages = PointToPoint::ordered;
  Schedule s = make_schedule(settings);
  // Stage 1 is odd and receives first: reverse one of its exchanges.
  ActionList& list = s.stages[1];
  for (size_t i = 0; i + 3 < list.size(); ++i) {
    if (list[i].kind == ActionKind::post_receive && list[i + 2].kind == ActionKind::post_send) {
      std::swap(list[i], list[i + 2]);
      std::swap(list[i + 1], list[i + 3]);
      break;
    }
  }
  EXPECT_THAT(problem(s), HasSubstr("deadlock: stage 0 at wait of activations 1 to stage 1 "
                                    "(micro-batch 1, chunk 0); stage 1 at wait of gradients 0 to "
                                    "stage 0 (micro-batch 0, chunk 0)"));
}

TEST(ValidateSchedule, CountsBuffersOfMessages) {
  // The middle stage of three with overlap: the next input and gradient are posted ahead, one of
  // each is received and in use, one is sent.
  const auto holds = validate_schedule(schedule());
  EXPECT_EQ(holds[2].stores, 1);
  EXPECT_EQ(holds[0].buffers, 3) << "two gradients, and one activation in flight";
}

}  // namespace
}  // namespace viaduct
