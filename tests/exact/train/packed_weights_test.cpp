// Weights kept as tiles change no bit, and follow every update.

#include <gtest/gtest.h>

#include <algorithm>

#include "device/recording.h"
#include "engine/dry_run.h"
#include "ops/gemm.h"
#include "support/instruction_set.h"
#include "support/tensor_ranks.h"
#include "support/tiny_models.h"
#include "support/training.h"
#include "support/training_run.h"

namespace viaduct {
namespace {

using namespace test;

class PackedWeights : public testing::Test {
 protected:
  void SetUp() override {
    if (!reads_packed_weights(cpu_ops(test::instruction_set()), DType::bf16))
      GTEST_SKIP() << "products read weights as they are";
  }
};

TrainingRun short_run(const std::string& model, bool packed) {
  return {.model = tiny_model(model),
          .recipe = "bf16_mixed",
          .length = 16,
          .rows_per_batch = 1,
          .packed_weights = packed};
}

int64_t packs(test::StepTrainer& trainer) {
  StepRecord record;
  const Recording recording(trainer.engine().device(), record);
  trainer.step();
  return std::count_if(record.ops().begin(), record.ops().end(),
                       [](const OpEntryRecord& op) { return op.op == "convert_operand"; });
}

TEST_F(PackedWeights, ChangeNoBitOfStepsWhoseWeightsChange) {
  for (const auto& [name, model] : tiny_models()) {
    SCOPED_TRACE(name);
    test::StepTrainer with(short_run(name, true)), without(short_run(name, false));
    for (int step = 0; step < 3; ++step) with.step(), without.step();
    EXPECT_TRUE(with.state() == without.state());
  }
}

TEST_F(PackedWeights, AreMadeOnceAStepForAllMicroBatches) {
  const TrainingRun run = short_run("gpt2", true);
  test::StepTrainer trainer(run);
  // Four matrices a block and the tied head's, each for forward and data gradient.
  const int64_t forms = 2 * (4 * run.model.layers + 1);
  EXPECT_EQ(packs(trainer), forms);
  EXPECT_EQ(packs(trainer), forms);
  test::StepTrainer without(short_run("gpt2", false));
  EXPECT_EQ(packs(without), 0);
}

TEST_F(PackedWeights, ChangeNoBitUnderOverlappedExchanges) {
  for (const int splits : {1, 4}) {
    TensorRun run{tiny_model("llama"), "bf16_mixed", 2, true};
    run.overlap[OverlapGemm::qkv_fprop] = {OverlapMethod::ring_exchange};
    for (const OverlapGemm gemm :
         {OverlapGemm::proj_fprop, OverlapGemm::fc2_fprop, OverlapGemm::fc1_dgrad})
      run.overlap[gemm] = {OverlapMethod::pipeline, splits};
    const TensorOutcome without = run_tensor_ranks(run);
    run.packed_weights = true;
    const TensorOutcome with = run_tensor_ranks(run);
    EXPECT_EQ(with.loss, without.loss);
    EXPECT_EQ(with.logits, without.logits);
    EXPECT_EQ(with.gradients, without.gradients);
  }
}

const Overrides kRun =
    tiny_run() + Overrides{"mixed_precision=bf16_mixed", "train.global_batch_size=4",
                           "train.micro_batch_size=1"};

TEST_F(PackedWeights, EvaluationBetweenStepsChangesNothing) {
  const Overrides run = kRun + Overrides{"train.train_iters=4", "validation.eval_iters=2",
                                         "validation.eval_interval=2"};
  EXPECT_EQ(train_run(run + Overrides{"model.packed_weights=true"}),
            train_run(run + Overrides{"model.packed_weights=false"}));
}

TEST_F(PackedWeights, TakeTheBytesOfMultipliedWeightsTwiceMore) {
  const auto peak = [](const char* packed) {
    return dry_run(setup_of(kRun + Overrides{std::string("model.packed_weights=") + packed}))
        .peak.bytes_by_tag;
  };
  // QKV, projection, gate and up, and down of two blocks, and the head. A table with only look-ups
  // has no tiles.
  const int64_t elements = 2 * (96 * 32 + 32 * 32 + 2 * 64 * 32 + 32 * 64) + 64 * 32;
  auto with = peak("true"), without = peak("false");
  EXPECT_EQ(with["derived weights"], 2 * 2 * elements);
  EXPECT_EQ(without["derived weights"], 0);
  EXPECT_EQ(with["weights"], without["weights"]);
}

}  // namespace
}  // namespace viaduct
