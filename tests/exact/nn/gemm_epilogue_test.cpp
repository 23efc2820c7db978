// Activations and residuals fused into the adjacent GEMMs (model.gemm_epilogue_fusion): the same
// bits as separate ops, with fewer ops, bytes and tensors.

#include <gtest/gtest.h>

#include <algorithm>

#include "support/tensor_ranks.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

using test::TensorOutcome;
using test::TensorRun;

/// The tiny models, and GPT-2 without dropout, whose projections have biases and end in a sum.
std::vector<test::TinyModel> models() {
  std::vector<test::TinyModel> list = test::tiny_models();
  ModelConfig still = test::tiny_model("gpt2");
  still.embedding_dropout = still.residual_dropout = still.attention_dropout = 0;
  list.push_back({"gpt2_still", still});
  return list;
}

TensorRun apart(TensorRun run) {
  run.fusions.gemm_epilogue = false;
  return run;
}

int64_t count(const TensorOutcome& outcome, std::string_view op) {
  const auto& ops = outcome.records[0].ops();
  return std::count_if(ops.begin(), ops.end(),
                       [&](const OpEntryRecord& entry) { return entry.op == op; });
}

int64_t bytes(const TensorOutcome& outcome) {
  const Cost cost = outcome.records[0].total_cost();
  return cost.bytes_read + cost.bytes_written;
}

TEST(GemmEpilogue, ChangesNoBit) {
  for (const test::TinyModel& model : models()) {
    for (const char* recipe : {"fp64", "fp32", "bf16_mixed", "fp16_mixed"}) {
      SCOPED_TRACE(model.name + " " + recipe);
      const TensorRun run{model.config, recipe};
      test::expect_same_bits(test::run_tensor_ranks(run), test::run_tensor_ranks(apart(run)));
    }
  }
}

// Without rounding between the ops, the two bias fusions also keep all bits.
TEST(GemmEpilogue, InFp32BiasesOfTheirOwnChangeNoBit) {
  for (const test::TinyModel& model : models()) {
    SCOPED_TRACE(model.name);
    const TensorRun fused{model.config, "fp32"};
    TensorRun composed = fused;
    composed.fusions.bias_activation = composed.fusions.bias_dropout = false;
    test::expect_same_bits(test::run_tensor_ranks(fused), test::run_tensor_ranks(composed));
  }
}

TEST(GemmEpilogue, ChangesNoBitOnTensorRanks) {
  for (const char* name : {"llama", "gpt2"}) {
    for (const bool sequence_parallel : {false, true}) {
      SCOPED_TRACE(std::string(name) + (sequence_parallel ? " sequence parallel" : ""));
      TensorRun run{test::tiny_model(name), "bf16_mixed", 2, sequence_parallel};
      test::expect_same_bits(test::run_tensor_ranks(run), test::run_tensor_ranks(apart(run)));
      if (!sequence_parallel) continue;
      // In a product that is gathered block by block, an epilogue gets the rows of its block.
      for (const OverlapGemm gemm : {OverlapGemm::fc1_fprop, OverlapGemm::fc2_dgrad})
        run.overlap[gemm] = {OverlapMethod::ring_exchange};
      test::expect_same_bits(test::run_tensor_ranks(run), test::run_tensor_ranks(apart(run)));
    }
  }
}

// Also with an FP32 residual stream: the product that is added to it is FP32 with and without
// fusion.
TEST(GemmEpilogue, ChangesNoBitOfAnFp32Stream) {
  for (const test::TinyModel& model : models()) {
    for (const char* recipe : {"bf16_mixed", "fp16_mixed"}) {
      SCOPED_TRACE(model.name + " " + recipe);
      TensorRun run{model.config, recipe};
      run.fp32_residual = true;
      test::expect_same_bits(test::run_tensor_ranks(run), test::run_tensor_ranks(apart(run)));
    }
  }
}

TEST(GemmEpilogue, SavesOpsBytesAndMemory) {
  for (const test::TinyModel& model : models()) {
    SCOPED_TRACE(model.name);
    const TensorRun run{model.config, "bf16_mixed"};
    const TensorOutcome fused = test::run_tensor_ranks(run),
                        separate = test::run_tensor_ranks(apart(run));
    EXPECT_EQ(count(fused, "activation_forward"), 0);
    EXPECT_EQ(count(fused, "activation_backward"), 0);
    EXPECT_EQ(count(separate, "activation_forward"), model.config.layers);
    EXPECT_EQ(count(separate, "activation_backward"), model.config.layers);
    // With dropout, the dropout op adds the residual; an output norm separates product and sum.
    const bool sums = model.config.residual_dropout == 0 && !model.config.output_norms;
    EXPECT_EQ(count(separate, "add") - count(fused, "add"), sums ? 2 * model.config.layers : 0);
    EXPECT_EQ(count(fused, "gemm"), count(separate, "gemm"));
    EXPECT_LT(bytes(fused), bytes(separate));
    EXPECT_LE(fused.records[0].peak().bytes, separate.records[0].peak().bytes);
    EXPECT_EQ(fused.saved_bytes, separate.saved_bytes);
  }
}

}  // namespace
}  // namespace viaduct
