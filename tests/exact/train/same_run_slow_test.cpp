// One seed, one run: bitwise the same when repeated and with any number of threads, and equal up to
// rounding with any cut into micro-batches.

#include <gtest/gtest.h>

#include <string>

#include "support/first_step.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

const Overrides kFull =
    tiny_run() + Overrides{"model.hidden_dropout=0.1", "model.attention_dropout=0.1",
                           "dataset.reset_attention_mask=true", "dataset.eod_id=3",
                           "train.train_iters=6"};

class SameRun : public testing::TestWithParam<const char*> {
 protected:
  Overrides run = kFull + Overrides{std::string("mixed_precision=") + GetParam()};
};

TEST_P(SameRun, TwiceBitwise) {
  const RunOutcome once = train_run(run);
  EXPECT_EQ(train_run(run), once);
  EXPECT_NE(train_run(run + Overrides{"rng.seed=99"}).tensors, once.tensors);
}

TEST_P(SameRun, WithOneThreadAndWithThreeBitwise) {
  const RunOutcome once = train_run(run + Overrides{"dist.threads_per_rank=1"});
  EXPECT_EQ(train_run(run + Overrides{"dist.threads_per_rank=2"}), once);
  EXPECT_EQ(train_run(run + Overrides{"dist.threads_per_rank=3"}), once);
}

TEST_P(SameRun, EvaluationChangesNothing) {
  const RunOutcome without = train_run(run);
  RunOutcome with =
      train_run(run + Overrides{"validation.eval_iters=2", "validation.eval_interval=2"});
  EXPECT_EQ(with.validations.size(), 4u);  // before, after steps 2 and 4, at the end
  with.validations.clear();
  with.state.validated_on.clear();
  EXPECT_EQ(with, without);
}

INSTANTIATE_TEST_SUITE_P(Recipes, SameRun, testing::Values("fp32", "bf16_mixed", "fp16_mixed"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Accumulation, FourTimesOneIsOneTimesFourUpToRounding) {
  const auto with = [](const char* rows) {
    return first_step(setup_of(kFull + Overrides{std::string("train.micro_batch_size=") + rows}));
  };
  const StepTensors whole = with("4");
  for (const char* rows : {"1", "2"})
    expect_same_step(with(rows), whole, std::string(" with rows of ") + rows);
}

}  // namespace
}  // namespace viaduct
