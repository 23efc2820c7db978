// The executor with a toy in place of a model: sums come out as without a pipeline.

#include "pipeline/executor.h"

#include <gtest/gtest.h>

#include "pipeline/schedule.h"
#include "toy_stage.h"

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
    EXPECT_EQ(toy.weight_gradients(), test::toy_gradients(settings));
    EXPECT_TRUE(toy.all_read());
    EXPECT_EQ(toy.first_uses(), 1);
    EXPECT_EQ(toy.last_gradients(), 1);
  }
}

}  // namespace
}  // namespace viaduct
