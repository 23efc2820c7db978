// Partial sums of tensor ranks that are sent as FP8 (comm_overlap.fp8_buf).

#include <gtest/gtest.h>

#include <cmath>

#include "support/tensor_ranks.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

using namespace test;

TensorRun run_with(OverlapMethod method, bool fp8_buf) {
  TensorRun run{tiny_model("llama"), "bf16_mixed"};
  run.model.hidden = 128, run.model.feed_forward = 256;
  run.model.heads = 4, run.model.head_dim = 64;
  run.model.kv_heads = std::min<int64_t>(run.model.kv_heads, 4);
  run.model.rotary.width = 64;
  run.model.attention_scale = 0.125;  // 1 / √64: scores of about 1
  run.products = {Scaling::mx, DType::e4m3, DType::e4m3};
  run.deviation = 0.08;
  run.tp = 2, run.sequence_parallel = true;
  for (const OverlapGemm gemm : {OverlapGemm::proj_fprop, OverlapGemm::fc2_fprop})
    run.overlap[gemm] = {method, 2, false, fp8_buf};
  return run;
}

double relative(const TensorOutcome& a, const TensorOutcome& b) {
  double difference = 0, size = 0;
  for (const auto& [name, values] : b.gradients) {
    for (size_t i = 0; i < values.size(); ++i) {
      difference += std::pow(a.gradients.at(name)[i] - values[i], 2);
      size += values[i] * values[i];
    }
  }
  return std::sqrt(difference / size);
}

TEST(Fp8Exchange, RoundsThePartsAndNothingElse) {
  const TensorOutcome plain = run_tensor_ranks(run_with(OverlapMethod::pipeline, false));
  const TensorOutcome pipeline = run_tensor_ranks(run_with(OverlapMethod::pipeline, true));
  // An element has an error of 2.7 % in the mean square, and a block adds two sums to the stream.
  const double error = relative(pipeline, plain);
  EXPECT_GT(error, 0.002);
  EXPECT_LT(error, 0.1);
  EXPECT_NEAR(pipeline.loss, plain.loss, 0.03 * plain.loss);
  // The parts are the same with every method.
  expect_same_bits(run_tensor_ranks(run_with(OverlapMethod::ring_exchange, true)), pipeline);
}

TEST(Fp8Exchange, LayersThatAreNotQuantizedSendWhatTheyHave) {
  TensorRun run = run_with(OverlapMethod::pipeline, false);
  run.products = {};
  const TensorOutcome plain = run_tensor_ranks(run);
  run.overlap = run_with(OverlapMethod::pipeline, true).overlap;
  expect_same_bits(run_tensor_ranks(run), plain);
}

}  // namespace
}  // namespace viaduct
