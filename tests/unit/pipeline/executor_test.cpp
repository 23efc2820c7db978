// The executor with a toy model: sums equal those without a pipeline.

#include "pipeline/executor.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/world.h"
#include "pipeline/schedule.h"
#include "pipeline/validate_schedule.h"
#include "unit/pipeline/toy_stage.h"

namespace viaduct {
namespace {

TEST(Executor, OneStageRunsThePlainLoop) {
  for (const ScheduleKind kind :
       {ScheduleKind::one_f_one_b, ScheduleKind::gpipe, ScheduleKind::zb_h1}) {
    ScheduleSettings settings;
    settings.kind = kind, settings.micro_batches = 4;
    const auto self = make_self_communicator();
    test::ToyStage toy(*self, settings);
    run_schedule(stage_schedule(settings, 0), toy, *self);
    const auto expected = test::toy_result(1, 4);
    EXPECT_EQ(toy.weight_gradients(), expected.gradients);
    EXPECT_EQ(toy.loss(), expected.loss);
    EXPECT_TRUE(toy.all_read());
    EXPECT_EQ(toy.begun(), 1);
  }
}

/// Skips the micro-batches from `end` on.
class FirstOnes : public ActionFollower {
 public:
  explicit FirstOnes(int64_t end) : end_(end) {}
  bool before(const Action& action) override {
    ++asked_;
    open_ += action.micro_batch < end_;
    return action.micro_batch < end_;
  }
  void after(const Action&) override { --open_, ++ran_; }
  int64_t asked() const { return asked_; }
  int64_t ran() const { return ran_; }
  int64_t open() const { return open_; }

 private:
  int64_t end_, asked_ = 0, ran_ = 0, open_ = 0;
};

/// Counts the chunks that it reduces.
class ReducingStage : public test::ToyStage {
 public:
  using ToyStage::ToyStage;
  void reduce_chunk(int) override { ++reduced_; }
  int reduced() const { return reduced_; }

 private:
  int reduced_ = 0;
};

TEST(Executor, WhatAFollowerLeavesOutIsNotRunButItsMarksAre) {
  ScheduleSettings settings;
  settings.micro_batches = 6;
  const auto self = make_self_communicator();
  ReducingStage toy(*self, settings);
  FirstOnes follower(4);
  run_schedule(stage_schedule(settings, 0), toy, *self, {}, &follower);
  const auto expected = test::toy_result(1, 4);
  EXPECT_EQ(toy.weight_gradients(), expected.gradients);
  EXPECT_EQ(toy.loss(), expected.loss);
  EXPECT_EQ(toy.begun(), 1);
  EXPECT_EQ(toy.reduced(), 1) << "at the last backward, which is left out";
  EXPECT_EQ(follower.asked(), 12);
  EXPECT_EQ(follower.ran(), 8);
  EXPECT_EQ(follower.open(), 0);
}

struct Case {
  ScheduleKind kind;
  int virtual_stages = 1;
  int64_t group = 0;
};

// Every stage gets the weight gradients that one rank computes for its layers, in any order of work
// and messages; micro-batches differ in size, and there may be fewer than stages.
TEST(Executor, EveryScheduleGivesTheSumsOfOneRank) {
  for (const Case& c :
       {Case{ScheduleKind::one_f_one_b}, Case{ScheduleKind::gpipe}, Case{ScheduleKind::zb_h1},
        Case{ScheduleKind::interleaved, 2}, Case{ScheduleKind::interleaved, 3, 5}}) {
    for (const int pp : {2, 3}) {
      for (const int64_t micro_batches : {1, 2, 5, 8}) {
        if (c.kind == ScheduleKind::interleaved) {
          const int64_t group = c.group > 0 ? c.group : pp, rest = micro_batches % group;
          if (micro_batches < group || (rest != 0 && rest < pp)) continue;
        }
        for (const PointToPoint messages :
             {PointToPoint::overlapped, PointToPoint::batched, PointToPoint::ordered}) {
          if (messages == PointToPoint::ordered && c.kind == ScheduleKind::zb_h1) continue;
          ScheduleSettings settings{c.kind, pp, c.virtual_stages, micro_batches, c.group, messages};
          settings.overlap_warmup_flush = micro_batches % 2 == 0;
          if (c.kind != ScheduleKind::zb_h1 && pp == 3) settings.deferred_heads = 3;
          const bool shapes_first = micro_batches == 5 || (pp == 3 && micro_batches > 1);
          SCOPED_TRACE(fmt::format("{} pp {} V {} M {} messages {}", schedule_kind_name(c.kind), pp,
                                   c.virtual_stages, micro_batches, int(messages)));
          const auto expected = test::toy_result(int64_t{pp} * c.virtual_stages, micro_batches);
          run_thread_ranks(pp, {.timeout_seconds = 30}, [&](std::shared_ptr<Communicator> world) {
            test::ToyStage toy(*world, settings);
            run_schedule(stage_schedule(settings, world->rank()), toy, *world,
                         {.deallocate_outputs = micro_batches > 2, .shapes_first = shapes_first});
            for (int chunk = 0; chunk < c.virtual_stages; ++chunk) {
              EXPECT_EQ(toy.weight_gradients()[size_t(chunk)],
                        expected.gradients[size_t(chunk * pp + world->rank())]);
            }
            const bool last = world->rank() == pp - 1;
            if (last) {
              EXPECT_EQ(toy.loss(), expected.loss);
            }
            EXPECT_EQ(toy.heads(), last ? std::min(settings.deferred_heads, micro_batches) : 0);
            EXPECT_TRUE(toy.all_read());
            EXPECT_EQ(toy.begun(), c.virtual_stages);
          });
        }
      }
    }
  }
}

// Under DualPipeV the first stage has both ends of the model, and the output of the last one's
// first chunk is the input of its second.
TEST(Executor, AVGivesTheSumsOfOneRank) {
  for (const int pp : {2, 3, 4}) {
    for (const int64_t micro_batches : {2 * pp, 2 * pp + 3}) {
      for (const bool backward : {true, false}) {
        ScheduleSettings settings{ScheduleKind::dualpipe_v, pp, 2, micro_batches};
        settings.backward = backward;
        SCOPED_TRACE(fmt::format("pp {} M {} backward {}", pp, micro_batches, backward));
        const auto expected = test::toy_result(int64_t{2} * pp, micro_batches);
        run_thread_ranks(pp, {.timeout_seconds = 30}, [&](std::shared_ptr<Communicator> world) {
          const int rank = world->rank();
          test::ToyStage toy(*world, settings);
          run_schedule(stage_schedule(settings, rank), toy, *world,
                       {.deallocate_outputs = pp == 2, .shapes_first = pp == 3});
          if (backward) {
            EXPECT_EQ(toy.weight_gradients()[0], expected.gradients[size_t(rank)]);
            EXPECT_EQ(toy.weight_gradients()[1], expected.gradients[size_t(2 * pp - 1 - rank)]);
          }
          EXPECT_EQ(toy.loss(), rank == 0 ? expected.loss : 0);
          EXPECT_TRUE(toy.all_read());
          EXPECT_EQ(toy.begun(), 2);
        });
      }
    }
  }
}

// Two stages of one chunk, in front of stages of two: the last of them sends to the first of these.
TEST(Executor, StagesInFrontOfChunksGiveTheSumsOfOneRank) {
  for (const ScheduleKind kind : {ScheduleKind::interleaved, ScheduleKind::dualpipe_v}) {
    for (const bool backward : {true, false}) {
      constexpr int kFront = 2, kBehind = 2;
      ScheduleSettings settings{kind, kFront + kBehind, 2, 6};
      settings.front_stages = kFront;
      settings.backward = backward;
      SCOPED_TRACE(fmt::format("{} backward {}", schedule_kind_name(kind), backward));
      const StageOrder order = settings.order();
      const auto expected = test::toy_result(order.count(2), 6);
      run_thread_ranks(
          settings.pp, {.timeout_seconds = 30}, [&](std::shared_ptr<Communicator> world) {
            const int rank = world->rank();
            test::ToyStage toy(*world, settings);
            run_schedule(stage_schedule(settings, rank), toy, *world, {.shapes_first = backward});
            for (int chunk = 0; backward && chunk < order.chunks(rank, 2); ++chunk) {
              EXPECT_EQ(toy.weight_gradients()[size_t(chunk)],
                        expected.gradients[size_t(order.virtual_stage(rank, chunk))]);
            }
            EXPECT_EQ(toy.loss(), rank == order.rank_of(order.count(2) - 1) ? expected.loss : 0);
            EXPECT_TRUE(toy.all_read());
            EXPECT_EQ(toy.begun(), order.chunks(rank, 2));
          });
    }
  }
}

/// `actions` with every computation of a whole chunk cut into ranges of segments, in the order in
/// which they depend on each other.
ActionList in_ranges(const ActionList& actions) {
  constexpr SegmentRange kFirst{0, 1}, kMiddle{1, SegmentRange::kEnd - 1};
  const std::vector<SegmentRange> forwards{kFirst, kMiddle, kLastSegment},
      backwards{kLastSegment, kMiddle, kFirst};
  ActionList cut;
  for (const Action& action : actions) {
    if (!computes(action.kind)) {
      cut.push_back(action);
      continue;
    }
    const auto& ranges = action.kind == ActionKind::forward ? forwards : backwards;
    for (const SegmentRange& range : ranges) {
      cut.push_back(action);
      cut.back().segments = range;
      if (range != ranges.front()) cut.back().begins = -1;
      cut.back().last_gradient = action.last_gradient && range == ranges.back();
    }
  }
  return cut;
}

TEST(Executor, RangesOfSegmentsGiveTheSameSums) {
  for (const ScheduleKind kind :
       {ScheduleKind::one_f_one_b, ScheduleKind::gpipe, ScheduleKind::zb_h1}) {
    ScheduleSettings settings{kind, 3, 1, 4};
    Schedule schedule = make_schedule(settings);
    for (ActionList& stage : schedule.stages) stage = in_ranges(stage);
    validate_schedule(schedule);
    const auto expected = test::toy_result(3, 4);
    run_thread_ranks(3, {.timeout_seconds = 30}, [&](std::shared_ptr<Communicator> world) {
      test::ToyStage toy(*world, settings);
      run_schedule(schedule.stages[size_t(world->rank())], toy, *world);
      EXPECT_EQ(toy.weight_gradients()[0], expected.gradients[size_t(world->rank())]);
      EXPECT_EQ(toy.heads(), 4);
      EXPECT_TRUE(toy.all_read());
    });
  }
}

// Evaluation: any number of micro-batches through any number of chunks, also fewer than stages.
TEST(Executor, ForwardsAloneRunWithFewerMicroBatchesThanStages) {
  for (const int virtual_stages : {1, 2, 3}) {
    for (const int pp : {2, 3}) {
      for (const int64_t micro_batches : {1, 2, 4, 7}) {
        for (const PointToPoint messages : {PointToPoint::overlapped, PointToPoint::batched}) {
          SCOPED_TRACE(fmt::format("pp {} V {} M {} messages {}", pp, virtual_stages, micro_batches,
                                   int(messages)));
          const auto kind =
              virtual_stages > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
          ScheduleSettings settings{kind, pp, virtual_stages, micro_batches, 0, messages};
          settings.backward = false;
          const Schedule schedule = make_schedule(settings);
          validate_schedule(schedule);
          const auto expected = test::toy_result(int64_t{pp} * virtual_stages, micro_batches);
          run_thread_ranks(pp, {.timeout_seconds = 30}, [&](std::shared_ptr<Communicator> world) {
            test::ToyStage toy(*world, settings);
            run_schedule(schedule.stages[size_t(world->rank())], toy, *world);
            EXPECT_EQ(toy.loss(), world->rank() == pp - 1 ? expected.loss : 0);
            EXPECT_TRUE(toy.all_read());
          });
        }
      }
    }
  }
}

TEST(Executor, ARangeWhoseNeighbourHasNotRunIsAnError) {
  const auto self = make_self_communicator();
  ScheduleSettings settings;
  test::ToyStage toy(*self, settings);
  const ActionList actions{{ActionKind::forward, 0, 0, kLastSegment}};
  EXPECT_THROW(run_schedule(actions, toy, *self), CommError);
}

/// A stage that read a different batch than its neighbours.
class OtherBatch final : public test::ToyStage {
 public:
  using ToyStage::ToyStage;
  Edge edge(const Action& message) override {
    Edge list = ToyStage::edge(message);
    if (message.micro_batch == 1) list[0].shape = {7};
    return list;
  }
};

TEST(Executor, AShapeThatGoesAheadIsComparedWithTheReceiversBatch) {
  ScheduleSettings settings;
  settings.pp = 2, settings.micro_batches = 3;
  try {
    run_thread_ranks(2, {.timeout_seconds = 30}, [&](std::shared_ptr<Communicator> world) {
      test::ToyStage toy(*world, settings);
      OtherBatch other(*world, settings);
      StageProgram& program = world->rank() == 1 ? static_cast<StageProgram&>(other) : toy;
      run_schedule(stage_schedule(settings, world->rank()), program, *world,
                   {.shapes_first = true});
    });
    FAIL() << "nothing was thrown";
  } catch (const CommError& error) {
    // Both ends detect it.
    EXPECT_THAT(
        error.what(),
        testing::AnyOf(testing::HasSubstr("stage 0 sends x [2], but according to the batch that "
                                          "stage 1 read it has [7]"),
                       testing::HasSubstr("stage 1 sends x [7], but according to the batch that "
                                          "stage 0 read it has [2]")));
  }
}

// A failing stage ends the others, which wait for its messages.
TEST(Executor, AFailingStageEndsAll) {
  ScheduleSettings settings;
  settings.pp = 3, settings.micro_batches = 4;
  try {
    run_thread_ranks(3, {.timeout_seconds = 30}, [&](std::shared_ptr<Communicator> world) {
      test::ToyStage toy(*world, settings);
      ActionList actions = stage_schedule(settings, world->rank());
      if (world->rank() == 1) actions.resize(8);
      run_schedule(actions, toy, *world);
      if (world->rank() == 1) fail<DeviceError>("out of memory");
    });
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("out of memory"));
  }
}

// Outputs that are not freed are held until their backward.
TEST(Executor, OutputsAreFreedOnceSent) {
  ScheduleSettings settings;
  settings.kind = ScheduleKind::gpipe, settings.pp = 2, settings.micro_batches = 6;
  for (const bool deallocate : {true, false}) {
    run_thread_ranks(2, {.timeout_seconds = 30}, [&](std::shared_ptr<Communicator> world) {
      test::ToyStage toy(*world, settings);
      run_schedule(stage_schedule(settings, world->rank()), toy, *world,
                   {.deallocate_outputs = deallocate});
      if (world->rank() == 0) {
        EXPECT_EQ(toy.peak_messages(), deallocate ? 2 : 6);
      }
    });
  }
}

// A list that validate_schedule rejects is an error here too, not a wrong number.
TEST(Executor, WaitingForWhatWasNotPostedIsAnError) {
  ScheduleSettings settings;
  const auto self = make_self_communicator();
  test::ToyStage toy(*self, settings);
  ActionList actions = stage_schedule(settings, 0);
  actions.insert(actions.begin(), Action{ActionKind::wait});
  EXPECT_THROW(run_schedule(actions, toy, *self), CommError);
}

}  // namespace
}  // namespace viaduct
