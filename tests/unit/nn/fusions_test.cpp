// The switch of each fusion: without it a run has other ops over more bytes, and the same numbers.

#include "nn/fusions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/tensor_ranks.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

using test::distance;
using test::TensorOutcome;
using test::TensorRun;

struct Switch {
  std::string name;
  Fusions fusions;
  bool recompute_logits = true;
};

void PrintTo(const Switch& s, std::ostream* out) {
  *out << s.name;
}

std::vector<Switch> switches() {
  std::vector<Switch> list{
      {"bias_activation", {}},       {"bias_dropout", {}},
      {"gradient_accumulation", {}}, {"cross_entropy", {}},
      {"gemm_epilogue", {}},         {"all", {false, false, false, false, false}},
      {"kept_logits", {}, false}};
  list[0].fusions.bias_activation = false;
  list[1].fusions.bias_dropout = false;
  list[2].fusions.gradient_accumulation = false;
  list[3].fusions.cross_entropy = false;
  list[4].fusions.gemm_epilogue = false;
  return list;
}

TensorRun run_of(const Switch& s, TensorRun run) {
  run.fusions = s.fusions;
  run.recompute_logits = s.recompute_logits;
  return run;
}

void expect_same(const TensorOutcome& actual, const TensorOutcome& expected, double bound) {
  EXPECT_LE(distance({actual.loss}, {expected.loss}), bound);
  ASSERT_EQ(actual.gradients.size(), expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients)
    EXPECT_LE(distance(actual.gradients.at(name), gradient), bound) << name;
}

class FusionSwitches : public testing::TestWithParam<Switch> {};
INSTANTIATE_TEST_SUITE_P(Each, FusionSwitches, testing::ValuesIn(switches()),
                         [](const auto& info) { return info.param.name; });

TEST_P(FusionSwitches, SameLossAndGradients) {
  for (const test::TinyModel& model : test::tiny_models()) {
    for (const auto& [recipe, bound] :
         {std::pair{"fp64", 1e-10}, std::pair{"fp32", 2e-5}, std::pair{"bf16_mixed", 6e-2}}) {
      SCOPED_TRACE(model.name + " " + recipe);
      const TensorRun run{model.config, recipe};
      expect_same(test::run_tensor_ranks(run_of(GetParam(), run)), test::run_tensor_ranks(run),
                  bound);
    }
  }
}

TEST_P(FusionSwitches, SameOnTensorRanks) {
  for (const char* name : {"gpt2", "gemma2"}) {
    for (const bool sequence_parallel : {false, true}) {
      SCOPED_TRACE(testing::Message() << name << " " << sequence_parallel);
      // Padding of the vocabulary: the last rank has one real row.
      TensorRun run{test::tiny_model(name), "fp64", 4, sequence_parallel, 3};
      const TensorOutcome expected = test::run_tensor_ranks({run.model, "fp64"});
      expect_same(test::run_tensor_ranks(run_of(GetParam(), run)), expected, 1e-10);
    }
  }
}

/// The record of one step of a model.
struct Work {
  std::map<std::string, int64_t> ops;
  int64_t bytes = 0, peak = 0;
};
Work work_of(const TensorRun& run) {
  const StepRecord record = test::run_tensor_ranks(run).records[0];
  Work work;
  for (const OpEntryRecord& op : record.ops()) ++work.ops[std::string(op.op)];
  const Cost cost = record.total_cost();
  work.bytes = cost.bytes_read + cost.bytes_written;
  work.peak = record.peak().bytes;
  return work;
}

/// The ops that a run has in addition to (or fewer than) the fused one.
std::map<std::string, int64_t> more_ops(const Work& apart, const Work& fused) {
  std::map<std::string, int64_t> more = apart.ops;
  for (const auto& [op, count] : fused.ops) more[op] -= count;
  std::erase_if(more, [](const auto& entry) { return entry.second == 0; });
  return more;
}

TEST(FusionRecord, OffRunsOtherOpsOverMoreBytes) {
  const std::vector<Switch> all = switches();
  using Ops = std::map<std::string, int64_t>;
  const Ops loss{{"cross_entropy_forward", -1},
                 {"cross_entropy_backward", -1},
                 {"lse_share", -1},
                 {"row_pick", 1},
                 {"row_largest", 1},
                 {"row_exponential", 1},
                 {"row_sum", 1},
                 {"row_divide", 1},
                 {"softmax_loss_backward", 1},
                 {"gemm", -1}};  // the logits once
  struct Expected {
    Switch off;
    Ops llama, gpt2;
  };
  // Two blocks; gpt2 has biases and dropout, llama a gated activation. A fused bias has no epilogue
  // without the fusion.
  const Ops activations{{"activation_forward", 2}, {"activation_backward", 2}};
  Ops llama_activations = activations, gpt2_activations = activations, llama_apart = activations;
  llama_activations["multiply"] = 6;
  gpt2_activations["bias_add"] = 2;
  llama_apart["add"] = 4;
  const std::vector<Expected> cases{
      {all[0], llama_activations, gpt2_activations},
      {all[1], {{"add", 4}}, {{"bias_add", 4}, {"add", 4}}},
      {all[2], {{"copy", 9}}, {{"copy", 9}}},
      {all[3], loss, loss},
      {all[4], llama_apart, activations},
  };
  for (const char* recipe : {"fp32", "bf16_mixed"}) {
    for (const bool gpt2 : {false, true}) {
      const TensorRun run{test::tiny_model(gpt2 ? "gpt2" : "llama"), recipe};
      const Work fused = work_of(run);
      for (const Expected& c : cases) {
        SCOPED_TRACE(c.off.name + " " + recipe);
        const Work apart = work_of(run_of(c.off, run));
        Ops expected = gpt2 ? c.gpt2 : c.llama;
        // Largest logits, sums and target logits are widened to FP64, where the fused version
        // copies log-sum-exps to merge them; the gradient of the logits is FP32.
        if (c.off.name == "cross_entropy") expected["copy"] = recipe == std::string("fp32") ? 2 : 3;
        EXPECT_EQ(more_ops(apart, fused), expected);
        if (expected.empty()) {
          EXPECT_EQ(apart.bytes, fused.bytes);
        } else {
          EXPECT_GT(apart.bytes, fused.bytes);
        }
      }
    }
  }
}

TEST(FusionRecord, AddingToTheGradientByWayOfATemporaryChangesNoBit) {
  for (const char* recipe : {"fp32", "bf16_mixed"}) {
    const TensorRun run{test::tiny_model("qwen2"), recipe};
    expect_same(test::run_tensor_ranks(run_of(switches()[2], run)), test::run_tensor_ranks(run), 0);
  }
}

// Probabilities replace the logits, and their gradient the probabilities.
TEST(FusionRecord, TheComposedLossHoldsItsLogitsOnce) {
  const Switch composed = switches()[3];
  for (const char* recipe : {"fp32", "bf16_mixed"}) {
    const TensorRun run = run_of(composed, {test::tiny_model("llama"), recipe});
    const StepRecord record = test::run_tensor_ranks(run).records[0];
    EXPECT_EQ(std::count_if(record.allocations().begin(), record.allocations().end(),
                            [](const AllocationRecord& a) { return a.bytes == 16 * 13 * 4; }),
              1)
        << recipe;
  }
}

// Kept logits save a GEMM and stay from forward to backward in the activation format; in FP32 they
// are what the backward would compute again.
TEST(FusionRecord, KeptLogits) {
  const Switch kept = switches().back();
  for (const auto& [recipe, bytes] : {std::pair{"fp32", 4}, std::pair{"bf16_mixed", 2}}) {
    const TensorRun run{test::tiny_model("llama"), recipe};
    const TensorOutcome made_again = test::run_tensor_ranks(run),
                        held = test::run_tensor_ranks(run_of(kept, run));
    const auto gemms = [](const TensorOutcome& outcome) {
      return std::count_if(outcome.records[0].ops().begin(), outcome.records[0].ops().end(),
                           [](const OpEntryRecord& op) { return op.op == "gemm"; });
    };
    EXPECT_EQ(gemms(held), gemms(made_again) - 1);
    EXPECT_EQ(held.saved_bytes - made_again.saved_bytes, 16 * 13 * bytes);
    if (bytes == 4) expect_same(held, made_again, 0);
  }
}

}  // namespace
}  // namespace viaduct
