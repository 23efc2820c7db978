// Whole steps with quantized products of experts: the distance of gradients from those of FP32,
// settings that change no bit, and padding to a multiple of rows, which changes nothing.

#include <gtest/gtest.h>

#include <cmath>

#include "support/quantization_error.h"
#include "support/tiny_models.h"
#include "support/training_run.h"

namespace viaduct {
namespace {

using namespace test;

struct Scheme {
  const char* name;
  Quantization products;
};
const Scheme kSchemes[] = {
    {"tensor", {Scaling::tensor, DType::e4m3, DType::e5m2}},
    {"blocks", {Scaling::blocks, DType::e4m3, DType::e5m2}},
    {"mx", {Scaling::mx, DType::e4m3, DType::e4m3}},
    {"nvfp4", {Scaling::nvfp4, DType::e2m1x2, DType::e2m1x2}},
};

ModelConfig wide_mixtral() {
  ModelConfig model = tiny_model("mixtral");
  model.hidden = 128, model.feed_forward = model.moe.feed_forward = 256;
  model.heads = 4, model.head_dim = 64, model.rotary.width = 64;
  model.kv_heads = std::min<int64_t>(model.kv_heads, 4);
  model.vocabulary = 256, model.max_positions = 64;
  model.attention_scale = 0.125;
  model.init_std = 0.08;
  return model;
}

TrainingRun training(const ModelConfig& model, const Quantization& products,
                     const std::string& recipe = "bf16_mixed") {
  return {.model = model,
          .recipe = recipe,
          .rows = 4,
          .length = 64,
          .rows_per_batch = 2,
          .products = products,
          .plain_layers = {"attention"}};
}

// Every token chooses all experts, so that rounding cannot change a choice; only rows of experts
// are quantized. The bound is that of linear layers.
TEST(QuantizedExperts, GradientsAreWithinTheErrorOfTheirFormats) {
  ModelConfig model = wide_mixtral();
  model.moe.routing.topk = model.moe.experts;
  StepTrainer reference(training(model, {}, "fp32"));
  const double loss = reference.step(false).loss;
  for (const Scheme& scheme : kSchemes) {
    SCOPED_TRACE(scheme.name);
    StepTrainer trainer(training(model, scheme.products, "fp32"));
    const bool fp4 = scheme.products.scaling == Scaling::nvfp4;
    EXPECT_NEAR(trainer.step(false).loss, loss, (fp4 ? 0.03 : 0.01) * loss);
    const double forward = element_error(scheme.products.forward);
    const double gradient = element_error(scheme.products.gradient) * (fp4 ? std::sqrt(2) : 1);
    const double products = 8.0 * static_cast<double>(model.layers);
    const double bound = std::sqrt(products * 2 * forward * forward +
                                   (products + 1) * (forward * forward + gradient * gradient));
    const auto ours = trainer.gradients(), theirs = reference.gradients();
    double worst = 0, our_square = 0, their_square = 0;
    for (size_t p = 0; p < ours.size(); ++p) {
      const Parameter& parameter = *trainer.engine().store().parameters()[p];
      our_square += std::pow(norm_of(ours[p]), 2), their_square += std::pow(norm_of(theirs[p]), 2);
      if (!parameter.experts.any()) continue;
      EXPECT_TRUE(parameter.quantized) << parameter.path;
      std::vector<double> difference = ours[p];
      for (size_t i = 0; i < difference.size(); ++i) difference[i] -= theirs[p][i];
      const double error = norm_of(difference) / norm_of(theirs[p]);
      worst = std::max(worst, error);
      EXPECT_GT(error, gradient / 2) << parameter.path << " is not quantized";
    }
    EXPECT_LT(worst, bound);
    // An error that does not depend on the gradient lengthens it by half of its square.
    EXPECT_NEAR(std::sqrt(our_square / their_square), 1, 0.01 + worst * worst / 2);
    RecordProperty(std::string(scheme.name) + "_worst", std::to_string(worst));
  }
}

TEST(QuantizedExperts, ThreadsChangeNoBit) {
  for (const Scheme& scheme : kSchemes) {
    TrainingRun run = training(wide_mixtral(), scheme.products);
    StepTrainer two(run);
    run.threads = 3;
    StepTrainer three(run);
    for (int step = 0; step < 2; ++step) two.step(), three.step();
    EXPECT_TRUE(two.state() == three.state()) << scheme.name;
  }
}

// Padding rows are computed, but nobody reads their results; their gradients are zero. Rows have
// their own scales, so products that contract features do not depend on padding.
TEST(QuantizedExperts, RowsOfPaddingChangeNoBitOfTheOthers) {
  Quantization products = kSchemes[2].products;
  products.weight_gradient = false;
  TrainingRun run = training(wide_mixtral(), products);
  StepTrainer plain(run);
  run.model.moe.pad_for_quantization = true;
  StepTrainer padded(run);
  for (int step = 0; step < 2; ++step) plain.step(), padded.step();
  EXPECT_TRUE(plain.state() == padded.state());
}

// Rows share the scales of whole matrices, and in weight gradients those of the last rows of an
// expert: at most each element is rounded anew, which is √2 times the error of one rounding.
TEST(QuantizedExperts, RowsOfPaddingCountInScalesAlone) {
  for (const Scheme& scheme : kSchemes) {
    SCOPED_TRACE(scheme.name);
    TrainingRun run = training(wide_mixtral(), scheme.products, "fp32");
    StepTrainer plain(run);
    run.model.moe.pad_for_quantization = true;
    StepTrainer padded(run);
    run.products = {};
    StepTrainer exact(run);
    const double loss = plain.step(false).loss;
    EXPECT_NEAR(padded.step(false).loss, loss, 0.01 * loss);
    exact.step(false);
    const auto far = worst_distance(plain.gradients(), exact.gradients());
    EXPECT_LT(worst_distance(padded.gradients(), plain.gradients()), std::sqrt(2) * far);
  }
}

}  // namespace
}  // namespace viaduct
