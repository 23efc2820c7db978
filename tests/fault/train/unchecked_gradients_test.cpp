// Gradients that are not finite, with and without the check for them (ddp.check_for_nan_in_grad).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "engine/engine.h"
#include "ops/cpu/cpu_ops.h"
#include "support/instruction_set.h"
#include "support/tensor_bytes.h"
#include "support/tiny_models.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

HostBatch row() {
  HostBatch batch;
  for (int i = 0; i < 8; ++i) {
    batch.ids.push_back(i);
    batch.positions.push_back(i);
    batch.targets.push_back(i + 1);
    batch.loss_weight.push_back(1);
    batch.token_index.push_back(i);
  }
  batch.end_document();
  return batch;
}

struct Outcome {
  StepResult step;
  bool weights_changed = false, weights_finite = true;
};

/// A step whose loss is finite and whose gradients overflow: the loss scale is FP32's largest.
Outcome overflowing_step(const std::string& recipe, bool check) {
  const auto device = make_cpu_device(1);
  const OpTable ops = cpu_ops(test::instruction_set());
  ResolvedRun run;
  run.layers.precision = precision_recipe(recipe);
  run.positions = 8;
  run.check_for_nan_in_grad = check;
  Engine engine(*device, ops, small_llama(), run);
  engine.initialize();
  const Tensor& head = engine.store().shard_runs().back().master;
  const std::string before = bytes_of(head);
  engine.begin_step({.learning_rate = 1e-3, .loss_scale = 3e38});
  engine.run_micro_batches(1, [&](int64_t) { return row(); });
  Outcome outcome{engine.finish_step(8)};
  outcome.weights_changed = bytes_of(head) != before;
  for (const ShardRun& run : engine.store().shard_runs()) {
    for (int64_t i = 0; i < run.master.elements(); ++i)
      outcome.weights_finite &= std::isfinite(run.master.data<float>()[i]);
  }
  return outcome;
}

TEST(UncheckedGradients, AreAppliedWhateverTheyHold) {
  for (const char* recipe : {"fp32", "bf16_mixed"}) {
    const Outcome checked = overflowing_step(recipe, true), taken = overflowing_step(recipe, false);
    EXPECT_TRUE(std::isfinite(taken.step.loss)) << recipe;
    EXPECT_FALSE(std::isfinite(taken.step.grad_norm)) << recipe;
    EXPECT_TRUE(checked.step.skipped) << recipe;
    EXPECT_FALSE(checked.weights_changed) << recipe;
    EXPECT_FALSE(taken.step.skipped) << recipe;
    EXPECT_TRUE(taken.weights_changed) << recipe;
    EXPECT_FALSE(taken.weights_finite) << recipe;
  }
}

TEST(UncheckedGradients, Fp16SkipsAllTheSame) {
  const Outcome outcome = overflowing_step("fp16_mixed", false);
  EXPECT_TRUE(outcome.step.skipped);
  EXPECT_FALSE(outcome.weights_changed);
}

TEST(UncheckedGradients, ALossThatIsNotFiniteStillStops) {
  EXPECT_THAT(
      [] {
        train_run(tiny_run() + Overrides{"optimizer.lr=1e30", "ddp.check_for_nan_in_grad=false"});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("loss nan"), HasSubstr("the update is made"),
                                 HasSubstr("ddp.check_for_nan_in_grad=true"))));
}

}  // namespace
}  // namespace viaduct
