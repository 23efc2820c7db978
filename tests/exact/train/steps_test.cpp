// Changes without effect on any bit of training: the number of threads, repeating the run, another
// model in the process. And changes that affect only the order of sums: micro-batch size and
// instruction set.

#include <gtest/gtest.h>

#include "support/tensor_bytes.h"
#include "support/training_run.h"

namespace viaduct {
namespace {

using test::StepTrainer;
using test::TrainingRun;

ModelConfig llama() {
  ModelConfig c;
  c.family = "llama";
  c.layers = 2, c.hidden = 96, c.feed_forward = 200, c.heads = 6, c.kv_heads = 2, c.head_dim = 20;
  c.vocabulary = 301, c.max_positions = 64;
  c.rotary.width = 20;
  c.attention_scale = 0.25;
  c.init_std = 0.1;
  return c;
}

ModelConfig gpt2() {
  ModelConfig c = llama();
  c.family = "gpt2";
  c.norm = NormKind::layer_norm;
  c.gated = false;
  c.activation = ActivationKind::gelu_tanh;
  c.kv_heads = 6, c.head_dim = 16;
  c.positions = PositionKind::learned;
  c.qkv_bias = c.projection_bias = c.up_bias = c.down_bias = true;
  c.tied_embeddings = true;
  c.embedding_dropout = c.residual_dropout = c.attention_dropout = 0.1;
  return c;
}

ModelConfig gemma2() {
  ModelConfig c = llama();
  c.family = "gemma2";
  c.activation = ActivationKind::gelu_tanh;
  c.tied_embeddings = c.output_norms = true;
  c.norm_weight_offset = 1;
  c.windows = {9, 0};
  c.attention_softcap = 3, c.logit_softcap = 5;
  c.embedding_scale = 9.8;
  return c;
}

ModelConfig qwen3() {
  ModelConfig c = llama();
  c.family = "qwen3";
  c.qk_norm = true;
  c.qkv_bias = true;
  return c;
}

/// A vocabulary so large that the head processes the tokens in several chunks.
ModelConfig many_words() {
  ModelConfig c = llama();
  c.hidden = 16, c.feed_forward = 24, c.heads = 2, c.kv_heads = 1, c.layers = 1;
  c.vocabulary = 65600;
  return c;
}

struct StepsCase {
  std::string name;
  ModelConfig model;
  std::string recipe;
};

void PrintTo(const StepsCase& c, std::ostream* os) {
  *os << c.name;
}

std::vector<StepsCase> cases() {
  return {{"llama_fp32", llama(), "fp32"},
          {"llama_bf16", llama(), "bf16_mixed"},
          {"gpt2_dropout_fp32", gpt2(), "fp32"},
          {"gpt2_dropout_bf16", gpt2(), "bf16_mixed"},
          {"gpt2_dropout_fp16", gpt2(), "fp16_mixed"},
          {"gemma2_bf16", gemma2(), "bf16_mixed"},
          {"qwen3_fp32", qwen3(), "fp32"},
          {"many_words_bf16", many_words(), "bf16_mixed"}};
}

class ExactTraining : public testing::TestWithParam<StepsCase> {
 protected:
  TrainingRun run() const {
    TrainingRun run;
    run.model = GetParam().model;
    run.recipe = GetParam().recipe;
    run.loss_scale = run.recipe == "fp16_mixed" ? 256 : 1;
    return run;
  }
  static std::string trained(const TrainingRun& run, int steps = 5) {
    StepTrainer trainer(run);
    for (int i = 0; i < steps; ++i) EXPECT_FALSE(trainer.step().skipped);
    return trainer.state();
  }
};

// EXPECT_TRUE of ==, because a failed EXPECT_EQ would print megabytes.

TEST_P(ExactTraining, ThreadsDoNotChangeABit) {
  TrainingRun one = run();
  one.threads = 1;
  const std::string expected = trained(one);
  for (const int threads : {2, 3}) {
    TrainingRun several = run();
    several.threads = threads;
    EXPECT_TRUE(trained(several) == expected) << threads << " threads";
  }
}

TEST_P(ExactTraining, SameSeedTwiceIsTheSame) {
  EXPECT_TRUE(trained(run()) == trained(run()));
  TrainingRun other = run();
  other.seed = 1235;
  EXPECT_FALSE(trained(run(), 1) == trained(other, 1));
}

TEST_P(ExactTraining, TwoModelsInOneProcessDoNotSeeEachOther) {
  TrainingRun neighbour;
  neighbour.model = gpt2();
  neighbour.model.layers = 1;
  neighbour.recipe = "bf16_mixed";
  neighbour.threads = 1;
  neighbour.seed = 5;
  StepTrainer a(run()), b(neighbour);
  for (int i = 0; i < 3; ++i) a.step(), b.step();
  EXPECT_TRUE(a.state() == trained(run(), 3));
  EXPECT_TRUE(b.state() == trained(neighbour, 3));
}

TEST_P(ExactTraining, MicroBatchesChangeTheOrderOfSumsAlone) {
  StepTrainer whole(run());
  const StepResult expected = whole.step(false);
  for (const int64_t rows : {1, 2}) {
    TrainingRun cut = run();
    cut.rows_per_batch = rows;
    StepTrainer parts(cut);
    const StepResult got = parts.step(false);
    EXPECT_EQ(got.loss, expected.loss) << rows;  // token losses, summed reproducibly
    EXPECT_NEAR(got.grad_norm, expected.grad_norm, 1e-6 * expected.grad_norm) << rows;
    EXPECT_LE(test::worst_distance(parts.gradients(), whole.gradients()), 2e-6) << rows;
  }
}

TEST(ExactLossScale, PowersOfTwoChangeNoBitOfTheUpdate) {
  for (const char* recipe : {"fp32", "bf16_mixed"}) {
    TrainingRun plain, scaled;
    plain.model = scaled.model = gpt2();
    plain.recipe = scaled.recipe = recipe;
    scaled.loss_scale = 1024;
    StepTrainer a(plain), b(scaled);
    for (int i = 0; i < 3; ++i) {
      const StepResult expected = a.step(), got = b.step();
      EXPECT_EQ(got.loss, expected.loss);
      EXPECT_EQ(got.grad_norm, expected.grad_norm);
    }
    const auto weights = [](StepTrainer& t) {
      std::string bytes;
      for (const Parameter* p : t.engine().store().parameters())
        bytes += test::bytes_of(t.engine().store().master(*p));
      return bytes;
    };
    EXPECT_TRUE(weights(a) == weights(b)) << recipe;
    // Checks that gradients were indeed scaled.
    EXPECT_NEAR(a.engine().gradient_factor() / b.engine().gradient_factor(), 1024, 1e-9);
  }
}

TEST_P(ExactTraining, InstructionSetsAgreeWithinRounding) {
  if (!cpu_supports(CpuIsa::avx2) || !cpu_supports(CpuIsa::avx512))
    GTEST_SKIP() << "this machine has one instruction set";
  TrainingRun narrow = run(), wide = run();
  narrow.isa = CpuIsa::avx2;
  wide.isa = CpuIsa::avx512;
  StepTrainer a(narrow), b(wide);
  const bool fp32 = GetParam().recipe == "fp32";
  EXPECT_NEAR(a.step(false).loss, b.step(false).loss, fp32 ? 1e-5 : 5e-3);
  EXPECT_LE(test::worst_distance(a.gradients(), b.gradients()), fp32 ? 2e-5 : 6e-2);
}

INSTANTIATE_TEST_SUITE_P(Cases, ExactTraining, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
