// Runs whose length is given in rows and whose batch grows: rows consumed, the end of the run, and
// bitwise resumption in the middle of the ramp.

#include <gmock/gmock.h>

#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::DoubleEq;
using testing::ElementsAre;
using testing::Pointwise;

/// 2 rows a step up to row 8, 4 up to 16, 6 up to 24, then 8: steps of 2 2 2 2 4 4 6 6 8 8.
const Overrides kRamp{"train.rampup_batch_size=[2,2,24]", "train.global_batch_size=8",
                      "train.micro_batch_size=2", "logger.log_throughput=false"};
const Overrides kInRows{"train.train_samples=47"};

Overrides in_rows() {
  Overrides run = tiny_run() + kRamp + kInRows;
  std::erase(run, "train.train_iters=20");
  return run;
}

TEST(BatchRamp, StepsTakeWhatTheRampSays) {
  TemporaryFolder folder;
  const RunOutcome run =
      train_run(in_rows() + Overrides{"checkpoint.save=" + folder.path().string()});
  EXPECT_THAT(metric(folder / "metrics.jsonl", "global_batch_size"),
              ElementsAre(2, 2, 2, 2, 4, 4, 6, 6, 8, 8));
  EXPECT_THAT(metric(folder / "metrics.jsonl", "samples"),
              ElementsAre(2, 4, 6, 8, 12, 16, 22, 28, 36, 44));
  EXPECT_EQ(run.state.step, 10) << "the eleventh would take rows past the 47";
  EXPECT_EQ(run.state.consumed_samples, 44);
  EXPECT_EQ(run.state.schedule_samples, 44);
  EXPECT_EQ(run.state.consumed_tokens, 44 * 32);
}

TEST(BatchRamp, GoesOnToTheBitInItsMiddle) {
  const Overrides run = in_rows() + Overrides{"scheduler.lr_warmup_samples=9"};
  const RunOutcome whole = train_run(run);
  for (const int stop : {3, 5, 7}) {
    TemporaryFolder folder;
    const Overrides saved = run + Overrides{"checkpoint.save=" + folder.path().string()};
    const RunOutcome half =
        train_run(saved + Overrides{"train.exit_interval=" + std::to_string(stop)});
    ASSERT_EQ(half.state.step, stop);
    EXPECT_EQ(train_run(saved), whole) << "stopped after step " << stop;
  }
}

TEST(BatchRamp, ALongerRunGoesOnWhereAShorterOneEnded) {
  TemporaryFolder folder;
  Overrides run = in_rows() + Overrides{"checkpoint.save=" + folder.path().string()};
  EXPECT_EQ(train_run(run).state.step, 10);
  EXPECT_EQ(train_run(run).state.step, 10) << "nothing is left to do";
  run.push_back("train.train_samples=60");
  const RunOutcome longer = train_run(run);
  EXPECT_EQ(longer.state.step, 12);
  EXPECT_EQ(longer.state.consumed_samples, 60);
}

TEST(BatchRamp, LearningRatesAreThoseOfTheRows) {
  TemporaryFolder folder;
  train_run(in_rows() + Overrides{"checkpoint.save=" + folder.path().string(), "optimizer.lr=1",
                                  "optimizer.min_lr=0", "scheduler.lr_decay_style=linear",
                                  "scheduler.lr_warmup_samples=8",
                                  "scheduler.lr_decay_samples=28"});
  const std::vector<double> at_samples{0,        2. / 8,   4. / 8,  6. / 8, 1,
                                       16. / 20, 12. / 20, 6. / 20, 0,      0};
  EXPECT_THAT(metric(folder / "metrics.jsonl", "learning_rate"), Pointwise(DoubleEq(), at_samples));
}

TEST(BatchRamp, IterationsAreSteppedThroughTheRampToo) {
  TemporaryFolder folder;
  const RunOutcome run = train_run(
      tiny_run() + kRamp +
      Overrides{"checkpoint.save=" + folder.path().string(), "train.train_iters=6",
                "optimizer.lr=1", "optimizer.min_lr=0", "scheduler.lr_decay_style=linear"});
  EXPECT_EQ(run.state.consumed_samples, 16);
  EXPECT_THAT(
      metric(folder / "metrics.jsonl", "learning_rate"),
      Pointwise(DoubleEq(), {1., 1 - 2. / 16, 1 - 4. / 16, 1 - 6. / 16, 1 - 8. / 16, 1 - 12. / 16}))
      << "the decay ends with the run, not at six full batches";
}

TEST(BatchRamp, ABatchThatDoesNotDivideIsRoundedDown) {
  TemporaryFolder folder;
  const RunOutcome run = train_run(
      tiny_run() + Overrides{"checkpoint.save=" + folder.path().string(), "train.train_iters=3",
                             "train.global_batch_size=7", "train.micro_batch_size=2",
                             "train.decrease_batch_size_if_needed=true",
                             "logger.log_throughput=false"});
  EXPECT_EQ(run.state.consumed_samples, 18);
  EXPECT_THAT(metric(folder / "metrics.jsonl", "global_batch_size"), ElementsAre(6, 6, 6));
  const RunOutcome six =
      train_run(tiny_run() + Overrides{"train.train_iters=3", "train.global_batch_size=6",
                                       "train.micro_batch_size=2"});
  EXPECT_EQ(run.tensors, six.tensors);
}

}  // namespace
}  // namespace viaduct
