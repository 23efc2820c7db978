// One seed, one run: bitwise the same when repeated and with any number of threads, and equal up to
// rounding with any cut into micro-batches.

#include <gtest/gtest.h>

#include "checkpoint/logical_gather.h"
#include "engine/engine.h"
#include "run/rank_device.h"
#include "support/golden.h"
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
  EXPECT_EQ(with, without);
}

INSTANTIATE_TEST_SUITE_P(Recipes, SameRun, testing::Values("fp32", "bf16_mixed", "fp16_mixed"),
                         [](const auto& info) { return std::string(info.param); });

/// Loss and gradients of the mean over the first global batch.
std::map<std::string, Tensor> first_step(const Overrides& overrides) {
  const RunSetup setup = setup_of(overrides);
  const RankDevice rank = make_rank_device(setup.config.dist);
  const ResolvedRun run = resolve_run(setup.config, setup.model);
  Engine engine(*rank.device, rank.ops, setup.model, run);
  engine.initialize();
  const TrainingData data(setup, rank.device->pool());
  engine.begin_step({});
  double scored = 0;
  engine.run_micro_batches(data.micro_batches(setup.config.train.global_batch_size),
                           [&](int64_t i) {
                             HostBatch batch = data.train(0, i);
                             scored += batch.scored_weight();
                             return batch;
                           });
  const StepResult result = engine.finish_step(scored, false);
  std::map<std::string, Tensor> values{{"loss", host_tensor(DType::f32, {1})}};
  *values.at("loss").data<float>() = static_cast<float>(result.loss);
  gather_logical(engine.groups().world(), *rank.device,
                 whole_runs(engine.store().parameters(),
                            [&](const Parameter& p) { return engine.store().main_gradient(p); }),
                 engine.gradient_factor(), [&](const std::string& name, const Tensor& tensor) {
                   values.emplace(name, tensor);
                 });
  return values;
}

TEST(Accumulation, FourTimesOneIsOneTimesFourUpToRounding) {
  const auto with = [](const char* rows) {
    return first_step(kFull + Overrides{std::string("train.micro_batch_size=") + rows});
  };
  const auto whole = with("4");
  for (const char* rows : {"1", "2"}) {
    const auto parts = with(rows);
    ASSERT_EQ(parts.size(), whole.size());
    for (const auto& [name, value] : whole)
      EXPECT_LE(relative_error(parts.at(name), value), 2e-5) << name << " with rows of " << rows;
  }
}

}  // namespace
}  // namespace viaduct
