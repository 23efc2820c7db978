// The executor with a toy in place of a model: sums come out as without a pipeline.

#include "pipeline/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "pipeline/schedule.h"
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
    EXPECT_EQ(toy.first_uses(), 1);
    EXPECT_EQ(toy.last_gradients(), 1);
  }
}

// A list that validate_schedule rejects is an error here, too, not a wrong number.
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
