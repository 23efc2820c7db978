// profiling.use_nsys_profiler on the doubles of the profiler and of NVTX: the window, and nested
// ranges.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda_host/profile.h"
#include "cuda_host/streams.h"
#include "report/step_profiler.h"
#include "run/rank_device.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::Contains;
using testing::Not;

std::vector<std::string> profile_of(const Overrides& more) {
  cuda_host::reset_runtime({.seed = 1});
  cuda_host::reset_profile();
  train_run(tiny_run() + Overrides{"dist.device=cuda", "train.train_iters=4"} + more);
  return cuda_host::profile();
}

const Overrides kWindow{"profiling.use_nsys_profiler=true", "profiling.profile_step_start=1",
                        "profiling.profile_step_end=3"};

TEST(ProfilerWindow, HasTheChosenStepsWithARangeForEachScope) {
  const std::vector<std::string> events = profile_of(kWindow);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.front(), "start");
  EXPECT_EQ(events.back(), "stop");
  int depth = 0, steps = 0;
  for (const std::string& event : events) {
    if (event[0] == '+') steps += event.rfind("+step ", 0) == 0, ++depth;
    if (event == "-") --depth;
    ASSERT_GE(depth, 0);
  }
  EXPECT_EQ(depth, 0);
  EXPECT_EQ(steps, 2);
  EXPECT_THAT(events, Contains("+step 2"));
  EXPECT_THAT(events, Contains("+forward of micro-batch 0"));
  EXPECT_THAT(events, Contains("+blocks.0.mlp"));
  EXPECT_THAT(events, Contains("+optimizer"));
  EXPECT_THAT(events, Not(Contains("+step 1")));
  EXPECT_THAT(events, Not(Contains("- without a range")));
}

TEST(ProfilerWindow, EndsWithARunThatEndsInIt) {
  const std::vector<std::string> events =
      profile_of(kWindow + Overrides{"train.train_iters=2", "profiling.profile_step_end=30"});
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back(), "stop");
}

TEST(ProfilerWindow, IsTheChosenRanksAlone) {
  EXPECT_THAT(profile_of({}), testing::IsEmpty());
  const RunSetup setup =
      setup_of(tiny_run() + kWindow +
               Overrides{"dist.device=cuda", "dist.ranks=2", "profiling.profile_ranks=[1]"});
  const RankDevice rank = make_rank_device(setup.config.dist);
  for (const int number : {0, 1}) {
    cuda_host::reset_profile();
    StepProfiler profiler(setup.config, *rank.device, {number});
    for (const int64_t step : {2, 3}) {
      StepRecord* const record = profiler.begin_step(step);
      EXPECT_EQ(record != nullptr, number == 1);
      { const RecordScope scope(record, ScopeKind::step, "step"); }
      profiler.end_step(step);
    }
    const std::vector<std::string> window{"start", "+step", "-", "+step", "-", "stop"};
    EXPECT_EQ(cuda_host::profile(), number == 0 ? std::vector<std::string>() : window);
  }
}

}  // namespace
}  // namespace viaduct
