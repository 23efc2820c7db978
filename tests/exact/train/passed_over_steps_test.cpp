// Steps of train.iterations_to_skip: their rows are consumed, nothing else changes.

#include <gmock/gmock.h>

#include "base/file.h"
#include "base/json.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::ElementsAre;

TEST(PassedOverSteps, ConsumeTheirRowsAndTrainNothing) {
  TemporaryFolder folder;
  const Overrides run = tiny_run() + Overrides{"logger.log_throughput=false", "train.train_iters=5",
                                               "checkpoint.save=" + folder.path().string()};
  const RunOutcome skipping = train_run(run + Overrides{"train.iterations_to_skip=[2,4]"});
  EXPECT_EQ(skipping.state.step, 5);
  EXPECT_EQ(skipping.state.updates, 3);
  EXPECT_EQ(skipping.state.skipped, 2);
  EXPECT_EQ(skipping.state.consumed_samples, 20);
  EXPECT_EQ(skipping.state.consumed_tokens, 20 * 32);
  EXPECT_EQ(skipping.state.schedule_samples, 12);
  EXPECT_THAT(metric(folder / "metrics.jsonl", "step"), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(metric(folder / "metrics.jsonl", "loss").size(), 3u)
      << "null where nothing was trained";
  EXPECT_THAT(metric(folder / "metrics.jsonl", "skipped"), ElementsAre(0, 1, 0, 1, 0));
}

TEST(PassedOverSteps, StepsAfterThemReadTheRowsThatAreTheirs) {
  const Overrides run =
      tiny_run() + Overrides{"logger.log_throughput=false", "train.train_iters=3"};
  TemporaryFolder whole, passed;
  train_run(run + Overrides{"checkpoint.save=" + whole.path().string(), "optimizer.lr=0",
                            "optimizer.min_lr=0"});
  train_run(run + Overrides{"checkpoint.save=" + passed.path().string(), "optimizer.lr=0",
                            "optimizer.min_lr=0", "train.iterations_to_skip=[2]"});
  // The weights do not move, so the loss depends only on the rows.
  const auto all = metric(whole / "metrics.jsonl", "loss"),
             rest = metric(passed / "metrics.jsonl", "loss");
  EXPECT_THAT(rest, ElementsAre(all[0], all[2]));
}

TEST(PassedOverSteps, ComeAgainInAResumedRun) {
  const Overrides run = tiny_run() + Overrides{"logger.log_throughput=false", "train.train_iters=8",
                                               "train.iterations_to_skip=[3,4,7]"};
  const RunOutcome whole = train_run(run);
  for (const int stop : {3, 5}) {
    TemporaryFolder folder;
    const Overrides saved = run + Overrides{"checkpoint.save=" + folder.path().string()};
    train_run(saved + Overrides{"train.exit_interval=" + std::to_string(stop)});
    EXPECT_EQ(train_run(saved), whole) << "stopped after step " << stop;
  }
}

}  // namespace
}  // namespace viaduct
