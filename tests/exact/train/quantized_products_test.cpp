// Whole steps with quantized products: which operands are made, the distance of gradients from
// those of FP32, and settings that change no bit.

#include <gtest/gtest.h>

#include <cmath>

#include "device/recording.h"
#include "nn/quantization_log.h"
#include "support/quantization_error.h"
#include "support/tensor_ranks.h"
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
    {"attention", {Scaling::tensor, DType::e4m3, DType::e5m2, true, true}},
    {"attended", {Scaling::tensor, DType::e4m3, DType::e5m2, true, true, true}},
    {"blocks", {Scaling::blocks, DType::e4m3, DType::e5m2}},
    {"mx", {Scaling::mx, DType::e4m3, DType::e4m3}},
    {"nvfp4", {Scaling::nvfp4, DType::e2m1x2, DType::e2m1x2}},
};

/// Wide enough for groups of scales on two tensor ranks.
ModelConfig wide(const std::string& name) {
  ModelConfig model = tiny_model(name);
  model.hidden = 128, model.feed_forward = 256;
  model.heads = 4, model.head_dim = 64;
  model.kv_heads = std::min<int64_t>(model.kv_heads, 4);
  if (model.rotary.width > 0) model.rotary.width = 64;
  model.vocabulary = 256, model.max_positions = 64;
  model.attention_scale = 0.125;  // 1 / √64: scores of about 1
  model.init_std = 0.08;
  return model;
}

TrainingRun training(const ModelConfig& model, const Quantization& products) {
  return {.model = model,
          .recipe = "bf16_mixed",
          .rows = 8,
          .length = 64,
          .rows_per_batch = 4,
          .products = products};
}

// A gradient has the errors of two operands for each product on its path: at most the four products
// of each block in forward and backward, and the weight gradient's own. Attention and gates
// multiply two results, and the errors of both count: each product counts twice. Errors are
// independent, so their squares add up.
TEST(QuantizedProducts, GradientsAreWithinTheErrorOfTheirFormats) {
  for (const char* name : {"llama", "gpt2"}) {
    const ModelConfig model = wide(name);
    TrainingRun exact = training(model, {});
    exact.recipe = "fp32";
    test::StepTrainer reference(exact);
    const double loss = reference.step(false).loss;
    for (const Scheme& scheme : kSchemes) {
      SCOPED_TRACE(std::string(name) + " " + scheme.name);
      TrainingRun run = training(model, scheme.products);
      run.recipe = "fp32";  // nothing else rounds
      test::StepTrainer trainer(run);
      const bool fp4 = scheme.products.scaling == Scaling::nvfp4;
      EXPECT_NEAR(trainer.step(false).loss, loss, (fp4 ? 0.03 : 0.01) * loss);
      const double forward = element_error(scheme.products.forward);
      // Stochastic rounding has twice the variance.
      const double gradient = element_error(scheme.products.gradient) * (fp4 ? std::sqrt(2) : 1);
      // Attention has two products a block in the forward, four in the backward.
      const double products =
          (scheme.products.attention ? 14.0 : 8.0) * static_cast<double>(model.layers);
      const double bound = std::sqrt(products * 2 * forward * forward +
                                     (products + 1) * (forward * forward + gradient * gradient));
      const auto ours = trainer.gradients(), theirs = reference.gradients();
      double our_square = 0, their_square = 0, worst = 0;
      for (size_t p = 0; p < ours.size(); ++p) {
        std::vector<double> difference = ours[p];
        for (size_t i = 0; i < difference.size(); ++i) difference[i] -= theirs[p][i];
        const double error = norm_of(difference) / std::max(norm_of(theirs[p]), 1e-12);
        // The first key biases have a gradient of only rounding errors.
        if (norm_of(theirs[p]) > 1e-6) worst = std::max(worst, error);
        our_square += std::pow(norm_of(ours[p]), 2),
            their_square += std::pow(norm_of(theirs[p]), 2);
      }
      EXPECT_LT(worst, bound);
      EXPECT_GT(worst, bound / 40) << "products are not quantized";
      EXPECT_NEAR(std::sqrt(our_square / their_square), 1, 0.01);
      RecordProperty(std::string(name) + "_" + scheme.name + "_worst", std::to_string(worst));
    }
  }
}

std::vector<std::string> conversions(test::StepTrainer& trainer) {
  StepRecord record;
  const Recording recording(trainer.engine().device(), record);
  trainer.step();
  std::vector<std::string> names;
  for (const OpEntryRecord& op : record.ops())
    if (op.op == "convert_operand" || op.op == "largest_magnitude") names.emplace_back(op.op);
  return names;
}

TEST(QuantizedProducts, OperandsOfLinearLayersInsideBlocksAlone) {
  const ModelConfig model = wide("llama");
  const int64_t linears = 4 * model.layers, micro_batches = 2;
  for (const Scheme& scheme : kSchemes) {
    SCOPED_TRACE(scheme.name);
    TrainingRun run = training(model, scheme.products);
    test::StepTrainer trainer(run);
    trainer.step();
    const auto names = conversions(trainer);
    const auto made = std::count(names.begin(), names.end(), "convert_operand");
    // x and dy once a micro-batch, and again for the weight gradient if scales lie along the
    // contracted dim; a weight likewise, once a step.
    const bool mx = scheme.products.scaling == Scaling::mx;
    const bool whole = scheme.products.scaling == Scaling::tensor;
    const bool fp4 = scheme.products.scaling == Scaling::nvfp4;
    // Queries, keys, values and the gradient of the output; the output is the projection's x.
    const int64_t heads = scheme.products.attention ? micro_batches * model.layers * 4 : 0;
    // Norms make the row-wise x of two layers of a block, with scales of 32 columns the activation
    // in a product that of a third; and the largest magnitudes of all three.
    const int64_t row_wise = whole || fp4 ? 0 : micro_batches * model.layers * (mx ? 3 : 2);
    EXPECT_EQ(made, micro_batches * linears * (whole ? 2 : 4) + linears * (mx ? 2 : 1) + heads -
                        row_wise);
    const auto maxima = std::count(names.begin(), names.end(), "largest_magnitude");
    // With FP4 also the maximum of the rotated operand.
    const int64_t found = micro_batches * model.layers * 3;
    EXPECT_EQ(maxima, whole ? micro_batches * linears * 2 + linears + heads - found
                      : fp4 ? micro_batches * linears * 4 + linears - 2 * found
                            : 0);
    if (scheme.products.attended) continue;  // the projection's weight gradient reads it
    run.products.weight_gradient = false;
    test::StepTrainer plain(run);
    plain.step();
    const auto fewer = conversions(plain);
    EXPECT_EQ(std::count(fewer.begin(), fewer.end(), "convert_operand"),
              micro_batches * linears * 2 + linears * (mx ? 2 : 1) + heads - row_wise);
  }
}

// Norms and activations that make no other forms leave them to ops of their own.
TEST(QuantizedProducts, ProducersChangeNoBit) {
  const auto without = [](CpuIsa isa) {
    OpTable table = cpu_ops(isa);
    table.produced_forms = nullptr;
    return table;
  };
  for (const char* name : {"llama", "gpt2"}) {
    for (const Scheme& scheme : kSchemes) {
      SCOPED_TRACE(std::string(name) + " " + scheme.name);
      TrainingRun run = training(wide(name), scheme.products);
      test::StepTrainer with(run);
      run.ops = without;
      test::StepTrainer plain(run);
      for (int step = 0; step < 2; ++step) with.step(), plain.step();
      EXPECT_TRUE(with.state() == plain.state());
    }
    TrainingRun run = training(wide(name), {});
    run.recipe = "bf16_with_fp8_delayed_scaling_mixed";
    test::StepTrainer with(run);
    run.ops = without;
    test::StepTrainer plain(run);
    for (int step = 0; step < 3; ++step) with.step(), plain.step();
    EXPECT_TRUE(with.state() == plain.state()) << name << ", delayed";
    EXPECT_LT(conversions(with).size(), conversions(plain).size());
  }
}

TEST(QuantizedProducts, FirstAndLastBlocksStayInTheirFormat) {
  TrainingRun run = training(wide("llama"), {});
  run.model.layers = 3;
  run.recipe = "bf16_with_fp8_current_scaling_mixed";
  test::StepTrainer trainer(run);
  trainer.step();
  const auto names = conversions(trainer);
  EXPECT_EQ(std::count(names.begin(), names.end(), "convert_operand"), 4 * (2 * 2 + 1));
}

TEST(QuantizedProducts, NamedLayersStayInTheirFormat) {
  TrainingRun run = training(wide("llama"), {});
  run.recipe = "bf16_with_nvfp4_mixed";
  run.plain_layers = {"mlp.down", "blocks.0"};
  test::StepTrainer trainer(run);
  trainer.step();
  const auto names = conversions(trainer);
  const int64_t linears = 3 * (run.model.layers - 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "convert_operand"), linears * (2 * 4 + 1));
}

// Each operand of each layer is measured once, and the numbers do not change.
TEST(QuantizedProducts, MeasuringThemChangesNoBit) {
  for (const Scheme& scheme : kSchemes) {
    SCOPED_TRACE(scheme.name);
    const TrainingRun run = training(wide("llama"), scheme.products);
    test::StepTrainer plain(run), measured(run);
    QuantizationLog log;
    measured.engine().inspect(&log);
    plain.step(), measured.step();
    EXPECT_TRUE(plain.state() == measured.state());
    // Attention's output is an operand from the start, so there is nothing to compare it with.
    const int operands = scheme.products.attended ? 3 * 4 - 1 : 3 * 4;
    const QuantizationLog::Tensors tensors = log.read(measured.engine().device());
    EXPECT_EQ(tensors.size(), static_cast<size_t>(operands * run.model.layers));
    for (const auto& [name, operand] : tensors) {
      const QuantizationError& e = operand.all;
      const DType element =
          name.ends_with(" dy") ? scheme.products.gradient : scheme.products.forward;
      const bool stochastic = element == DType::e2m1x2 && name.ends_with(" dy");
      const double error = element_error(element) * (stochastic ? std::sqrt(2) : 1);
      EXPECT_GT(e.relative_error(), error / 2) << name;
      EXPECT_LT(e.relative_error(), error * 1.5) << name;
      EXPECT_EQ(e.not_finite, 0) << name;
    }
  }
}

TEST(QuantizedProducts, ThreadsAndInstructionsOfStepsChangeNoBit) {
  for (const Scheme& scheme : kSchemes) {
    TrainingRun run = training(wide("llama"), scheme.products);
    test::StepTrainer two(run);
    run.threads = 3;
    test::StepTrainer three(run);
    for (int step = 0; step < 2; ++step) two.step(), three.step();
    EXPECT_TRUE(two.state() == three.state()) << scheme.name;
  }
}

TEST(QuantizedProducts, Fp16HasThemToo) {
  for (const char* recipe : {"fp16_with_mxfp8_mixed", "fp16_with_fp8_subchannel_scaling_mixed"}) {
    TrainingRun run = training(wide("gpt2"), {});
    run.recipe = recipe, run.loss_scale = 1024;
    test::StepTrainer trainer(run);
    run.recipe = "fp32", run.loss_scale = 1;
    test::StepTrainer reference(run);
    const double loss = reference.step().loss;
    EXPECT_NEAR(trainer.step().loss, loss, 0.01 * loss) << recipe;
    EXPECT_TRUE(std::isfinite(trainer.step().grad_norm)) << recipe;
  }
}

TensorRun ranks(const char* model, const Quantization& products, int tp, bool sequence_parallel,
                int cp = 1) {
  TensorRun run{wide(model), "fp32"};
  run.products = products;
  // Each of two tensor ranks has the 16 tokens that are rotated together.
  if (products.scaling == Scaling::nvfp4) run.repeats = 2;
  run.deviation = 0.08;  // 1 / √128: layers amplify no error
  run.tp = tp, run.sequence_parallel = sequence_parallel, run.cp = cp;
  return run;
}

/// ‖a − b‖ / ‖b‖ over all gradients.
double distance_of(const TensorOutcome& a, const TensorOutcome& b) {
  double difference = 0, size = 0;
  for (const auto& [name, values] : b.gradients) {
    for (size_t i = 0; i < values.size(); ++i) {
      difference += std::pow(a.gradients.at(name)[i] - values[i], 2);
      size += values[i] * values[i];
    }
  }
  return std::sqrt(difference / size);
}

// FP32 tensors: layouts differ by the order of sums, and a few elements are rounded to their other
// neighbour. A scale made from one rank's part would change the rounding of all of them.
TEST(QuantizedProducts, LayoutsAreOneRank) {
  for (const char* name : {"llama", "gpt2"}) {
    for (const Scheme& scheme : kSchemes) {
      // Layers with so few elements amplify an element that is rounded differently
      // (unit/nn/attention_codes_test.cpp tests attention alone).
      if (scheme.products.attention) continue;
      const TensorOutcome one = run_tensor_ranks(ranks(name, scheme.products, 1, false));
      const TensorOutcome exact = run_tensor_ranks(ranks(name, {}, 1, false));
      const double of_format = distance_of(one, exact);
      const auto expect_near = [&](const TensorOutcome& other, const std::string& what) {
        SCOPED_TRACE(std::string(name) + " " + scheme.name + " " + what);
        EXPECT_NEAR(other.loss, one.loss, 1e-3 * std::abs(one.loss));
        EXPECT_LT(distance_of(other, one), of_format / 10) << of_format;
      };
      // Groups have 16, 32 and 128 tokens, and a context rank has two runs of 8. The scale of a
      // whole weight is made over tensor ranks, which these stores do not have (tests/layout has
      // engines).
      if (scheme.products.scaling == Scaling::nvfp4) continue;
      if (scheme.products.scaling == Scaling::tensor) {
        expect_near(run_tensor_ranks(ranks(name, scheme.products, 1, false, 2)), "cp2");
        continue;
      }
      expect_near(run_tensor_ranks(ranks(name, scheme.products, 2, false)), "tp2");
      expect_near(run_tensor_ranks(ranks(name, scheme.products, 2, true)), "tp2 sequence");
    }
  }
}

// For a token in a block with N = 4 heads and K = 2 key-value heads of 64 dims: queries, keys and
// values, (N + 2 K) 64 numbers, in one byte instead of two; then the output, N 64 numbers, once as
// FP8 instead of BF16 beside the projection's FP8.
TEST(QuantizedProducts, AttentionKeepsFp8) {
  const auto kept = [](bool attention, bool attended) {
    TensorRun run = ranks(
        "llama", {Scaling::tensor, DType::e4m3, DType::e5m2, true, attention, attended}, 1, false);
    run.recipe = "bf16_mixed";
    EXPECT_EQ(run.model.kv_heads, 2);
    return run_tensor_ranks(run).saved_bytes;
  };
  const int64_t tokens = 16, blocks = 2, scales = 3 * 4, scale = 4;
  EXPECT_EQ(kept(false, false) - kept(true, false), blocks * (tokens * 8 * 64 - scales));
  // The output uses the projection's scale.
  EXPECT_EQ(kept(true, false) - kept(true, true), blocks * (tokens * 4 * 64 * 2 + 0 * scale));
}

TEST(QuantizedProducts, OverlapAndHalvesChangeNoBit) {
  using Method = OverlapMethod;
  GemmOverlapTable ring, pipeline, bulk;
  for (const OverlapGemm gemm : {OverlapGemm::qkv_fprop, OverlapGemm::fc1_fprop,
                                 OverlapGemm::proj_dgrad, OverlapGemm::fc2_fprop})
    ring[gemm] = {Method::ring_exchange};
  for (const OverlapGemm gemm : {OverlapGemm::proj_fprop, OverlapGemm::fc2_fprop})
    pipeline[gemm] = {Method::pipeline, 1};
  for (const OverlapGemm gemm : {OverlapGemm::qkv_dgrad, OverlapGemm::qkv_wgrad,
                                 OverlapGemm::fc1_dgrad, OverlapGemm::fc1_wgrad})
    bulk[gemm] = {Method::bulk};
  for (const Scheme& scheme : kSchemes) {
    TensorRun run = ranks("llama", scheme.products, 2, true);
    run.recipe = "bf16_mixed";
    const TensorOutcome plain = run_tensor_ranks(run);
    for (const GemmOverlapTable& overlap : {ring, pipeline, bulk}) {
      SCOPED_TRACE(scheme.name);
      run.overlap = overlap;
      test::expect_same_bits(run_tensor_ranks(run), plain);
    }
    run.overlap = {};
    for (const auto walk : {TensorRun::Walk::segments, TensorRun::Walk::halves}) {
      run.walk = walk;
      test::expect_same_bits(run_tensor_ranks(run), plain);
    }
  }
}

TEST(QuantizedProducts, RecomputationChangesNoBit) {
  for (const Scheme& scheme : kSchemes) {
    for (const bool sequence_parallel : {false, true}) {
      TensorRun run = ranks("llama", scheme.products, 2, sequence_parallel);
      run.recipe = "bf16_mixed";
      const TensorOutcome kept = run_tensor_ranks(run);
      for (const std::string_view unit : kUnits) {
        SCOPED_TRACE(std::string(scheme.name) + " " + std::string(unit));
        for (int64_t block = 0; block < 2; ++block)
          run.saved_policy.set(block, unit, UnitPolicy::recompute);
        test::expect_same_bits(run_tensor_ranks(run), kept);
        run.saved_policy = {};
      }
      run.saved_policy.recompute_layers({0, 2});
      test::expect_same_bits(run_tensor_ranks(run), kept);
    }
  }
}

}  // namespace
}  // namespace viaduct
