// Whole steps on a device whose products read scaled operands alone: no layer knows it.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "device/recording.h"
#include "support/scaled_ops.h"
#include "support/tensor_ranks.h"
#include "support/tiny_models.h"
#include "support/training_run.h"

namespace viaduct {
namespace {

using namespace test;

std::function<OpTable(CpuIsa)> scaled(ScaledValues values, bool for_simulation = false) {
  return [=](CpuIsa isa) { return scaled_ops(values, isa, for_simulation); };
}

TrainingRun short_run(const std::string& model, const std::string& recipe) {
  return {
      .model = tiny_model(model), .recipe = recipe, .rows = 2, .length = 16, .rows_per_batch = 1};
}

TEST(ScaledOperands, ExactOnesChangeNoBitOfSteps) {
  for (const auto& [name, model] : tiny_models()) {
    for (const char* recipe : {"fp32", "bf16_mixed"}) {
      SCOPED_TRACE(name + " " + recipe);
      TrainingRun run = short_run(name, recipe);
      test::Trainer plain(run);
      run.ops = scaled(ScaledValues::exact);
      test::Trainer with(run);
      for (int step = 0; step < 2; ++step) plain.step(), with.step();
      EXPECT_TRUE(with.state() == plain.state());
    }
  }
}

// Slices of weights, rows of rings, gathers beside products: wherever an operand is cut.
TEST(ScaledOperands, ExactOnesChangeNoBitOnTensorRanks) {
  using Method = OverlapMethod;
  GemmOverlapTable ring, pipeline, bulk;
  for (const OverlapGemm gemm : {OverlapGemm::qkv_fprop, OverlapGemm::fc1_fprop,
                                 OverlapGemm::proj_dgrad, OverlapGemm::fc2_fprop})
    ring[gemm] = {Method::ring_exchange};
  for (const OverlapGemm gemm :
       {OverlapGemm::proj_fprop, OverlapGemm::fc2_fprop, OverlapGemm::fc1_dgrad})
    pipeline[gemm] = {Method::pipeline, 4};
  for (const OverlapGemm gemm : {OverlapGemm::qkv_dgrad, OverlapGemm::qkv_wgrad,
                                 OverlapGemm::fc1_dgrad, OverlapGemm::fc1_wgrad})
    bulk[gemm] = {Method::bulk};
  for (const char* model : {"llama", "gpt2"}) {
    for (const GemmOverlapTable& overlap : {GemmOverlapTable{}, ring, pipeline, bulk}) {
      for (const bool sequence_parallel : {false, true}) {
        SCOPED_TRACE(testing::Message() << model << " " << sequence_parallel);
        TensorRun run{tiny_model(model), "bf16_mixed", 2, sequence_parallel};
        run.overlap = overlap;
        const TensorOutcome plain = run_tensor_ranks(run);
        run.ops = scaled(ScaledValues::exact);
        test::expect_same_bits(plain, run_tensor_ranks(run));
        if (HasFailure()) return;
      }
    }
  }
}

std::vector<std::string> ops_of_step(test::Trainer& trainer, const std::string& only = {}) {
  StepRecord record;
  const Recording recording(trainer.engine().device(), record);
  trainer.step();
  std::vector<std::string> names;
  for (const OpEntryRecord& op : record.ops())
    if (only.empty() || op.op == only) names.push_back(op.op + " " + op.kernel);
  return names;
}

TEST(ScaledOperands, WeightsAreMadeOnceAStepAndActivationsForEachProduct) {
  TrainingRun run = short_run("llama", "bf16_mixed");
  run.ops = scaled(ScaledValues::exact);
  test::Trainer trainer(run);
  trainer.step();
  const int64_t linears = 4 * run.model.layers, micro_batches = 2;
  // Of a linear layer x and dy, row-wise for its product and column-wise for the weight gradient;
  // of the head x twice, for its backward makes the logits again, and dy and both column-wise.
  const int64_t weights = 2 * (linears + 1), activations = micro_batches * (4 * linears + 5);
  EXPECT_EQ(ops_of_step(trainer, "convert_operand").size(),
            static_cast<size_t>(weights + activations));
}

TEST(ScaledOperands, SimChoosesWhatTheDeviceRuns) {
  TrainingRun run = short_run("gpt2", "bf16_mixed");
  run.ops = scaled(ScaledValues::exact, true);
  test::Trainer real(run);
  run.simulated = true;
  test::Trainer simulated(run);
  real.step(), simulated.step();
  const auto ops = ops_of_step(real);
  EXPECT_EQ(ops_of_step(simulated), ops);
  EXPECT_NE(std::find(ops.begin(), ops.end(), "gemm scaled"), ops.end());
  const auto peak = [](test::Trainer& t) { return t.engine().device().memory().peak_bytes_by_tag; };
  EXPECT_EQ(peak(simulated), peak(real));
}

// Each operand of a product is off by 2^-4 of itself at most, half that on average, and every
// matrix is one; sums over terms of random sign shrink that.
TEST(ScaledOperands, Mxfp8IsWithinItsRounding) {
  for (const char* model : {"llama", "gpt2"}) {
    SCOPED_TRACE(model);
    TrainingRun run = short_run(model, "bf16_mixed");
    test::Trainer plain(run);
    run.ops = scaled(ScaledValues::mxfp8);
    test::Trainer quantized(run);
    const StepResult expected = plain.step(false), found = quantized.step(false);
    EXPECT_NEAR(found.loss, expected.loss, 0.01 * expected.loss);
    const double distance = worst_distance(quantized.gradients(), plain.gradients());
    EXPECT_LT(distance, 0.25);
    EXPECT_GT(distance, 0.01) << "nothing was rounded";
  }
}

}  // namespace
}  // namespace viaduct
