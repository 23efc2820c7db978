// Whole steps on a device whose GEMMs read only scaled operands, over poisoned memory, with
// unchanged layers.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "device/recording.h"
#include "support/scaled_device.h"
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
      test::StepTrainer plain(run);
      run.ops = scaled(ScaledValues::exact);
      run.device = make_scaled_device;
      test::StepTrainer with(run);
      for (int step = 0; step < 2; ++step) plain.step(), with.step();
      EXPECT_TRUE(with.state() == plain.state());
    }
  }
}

// Slices of weights, rows of rings, gathers beside products: every place where an operand is cut.
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
        run.device = make_scaled_device;
        test::expect_same_bits(plain, run_tensor_ranks(run));
        if (HasFailure()) return;
      }
    }
  }
}

std::vector<std::string> ops_of_step(test::StepTrainer& trainer, const std::string& only = {}) {
  StepRecord record;
  const Recording recording(trainer.engine().device(), record);
  trainer.step();
  std::vector<std::string> names;
  for (const OpEntryRecord& op : record.ops())
    if (only.empty() || op.op == only) names.push_back(fmt::format("{} {}", op.op, op.kernel));
  return names;
}

TEST(ScaledOperands, WeightsAreMadeOnceAStepAndActivationsForEachProduct) {
  TrainingRun run = short_run("llama", "bf16_mixed");
  run.ops = scaled(ScaledValues::exact);
  run.device = make_scaled_device;
  test::StepTrainer trainer(run);
  trainer.step();
  const int64_t linears = 4 * run.model.layers, micro_batches = 2;
  // For a linear layer x and dy, row-wise for its product and column-wise for the weight gradient;
  // for the head x twice, because its backward computes the logits again, and dy and both
  // column-wise.
  const int64_t weights = 2 * (linears + 1), activations = micro_batches * (4 * linears + 5);
  EXPECT_EQ(ops_of_step(trainer, "convert_operand").size(),
            static_cast<size_t>(weights + activations));
}

TEST(ScaledOperands, SimChoosesWhatTheDeviceRuns) {
  TrainingRun run = short_run("gpt2", "bf16_mixed");
  run.ops = scaled(ScaledValues::exact, true);
  run.device = make_scaled_device;
  test::StepTrainer real(run);
  run.device = [](int) { return make_sim_device(); };
  test::StepTrainer simulated(run);
  real.step(), simulated.step();
  const auto ops = ops_of_step(real);
  EXPECT_EQ(ops_of_step(simulated), ops);
  EXPECT_NE(std::find(ops.begin(), ops.end(), "gemm scaled"), ops.end());
  const auto peak = [](test::StepTrainer& t) {
    return t.engine().device().memory().peak_bytes_by_tag;
  };
  EXPECT_EQ(peak(simulated), peak(real));
}

/// ‖a − b‖ / ‖b‖ over all gradients.
double distance_of(const test::StepTrainer& a, const test::StepTrainer& b) {
  double difference = 0, size = 0;
  const auto left = a.gradients(), right = b.gradients();
  for (size_t p = 0; p < right.size(); ++p) {
    for (size_t i = 0; i < right[p].size(); ++i) {
      difference += (left[p].at(i) - right[p][i]) * (left[p].at(i) - right[p][i]);
      size += right[p][i] * right[p][i];
    }
  }
  return std::sqrt(difference / size);
}

// An e4m3 element has an error of 2.5 % in the mean square (its step is 1/16 to 1/8 of it, and
// uniform rounding leaves 1/√12 of a step); an i8 element of normal numbers, whose largest of 32 is
// near 2.1 σ and whose scale is up to twice too large, 0.5 to 1 % of σ. Errors of products add up
// over the depth of the model, in proportion to these: both models have about 25 of them.
TEST(ScaledOperands, QuantizedOnesAreOffInProportionToTheirSteps) {
  for (const char* model : {"llama", "gpt2"}) {
    SCOPED_TRACE(model);
    TrainingRun run = short_run(model, "bf16_mixed");
    test::StepTrainer plain(run);
    run.device = make_scaled_device;
    run.ops = scaled(ScaledValues::mxfp8);
    test::StepTrainer fp8(run);
    run.ops = scaled(ScaledValues::mxint8);
    test::StepTrainer int8(run);
    const double loss = plain.step(false).loss;
    EXPECT_NEAR(fp8.step(false).loss, loss, 0.01 * loss);
    EXPECT_NEAR(int8.step(false).loss, loss, 0.0025 * loss);
    const double coarse = distance_of(fp8, plain), fine = distance_of(int8, plain);
    EXPECT_LT(coarse, 0.4);
    EXPECT_LT(fine, 0.1);
    EXPECT_GT(coarse / fine, 2);
    EXPECT_LT(coarse / fine, 8);
    RecordProperty(std::string(model) + "_fp8", std::to_string(coarse));
    RecordProperty(std::string(model) + "_int8", std::to_string(fine));
  }
}

}  // namespace
}  // namespace viaduct
