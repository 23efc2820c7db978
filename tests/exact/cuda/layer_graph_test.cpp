// Training with a graph for each layer, or for modules of it: whatever order the streams run in,
// weights, moments and metrics have the bits of a run without graphs, and the host launches as much
// as the dry run says.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda_host/graphs.h"
#include "cuda_host/nccl/nccl_double.h"
#include "cuda_host/streams.h"
#include "engine/dry_run.h"
#include "exact/cuda/planned_memory.h"
#include "support/rank_trainers.h"
#include "support/stream_seeds.h"

namespace viaduct {
namespace {

using namespace test;

const Overrides kCuda{"dist.device=cuda"};
const Overrides kGraphs{"model.cuda_graph_impl=local", "model.cuda_graph_warmup_steps=2"};
constexpr int kSteps = 5, kCaptured = 3;

struct LayerCase {
  std::string name, family;
  Overrides settings;
  std::string modules = "[]";
  int ranks = 1;
};
void PrintTo(const LayerCase& c, std::ostream* out) {
  *out << c.name;
}

/// The launches of graphs in a step of all ranks, by the dry run.
int64_t graphs_of_a_step(const Overrides& run, int ranks) {
  RunSetup setup = setup_of(run);
  setup.config.cuda_target = CudaTarget::sm_90a;
  int64_t launches = 0;
  for (int rank = 0; rank < ranks; ++rank)
    for (const KernelUse& use : dry_run(setup, {rank}, nullptr, false).kernels)
      if (use.op == "graph") launches += use.launches;
  return launches;
}

class LayerGraphRuns : public testing::TestWithParam<LayerCase> {};

TEST_P(LayerGraphRuns, HaveTheBitsOfStepsWithout) {
  // The learning rate is another one in each step.
  const LayerCase& param = GetParam();
  const Overrides run =
      tiny_run(param.family) + kCuda +
      Overrides{"train.train_iters=" + std::to_string(kSteps), "scheduler.lr_warmup_iters=3",
                "dist.ranks=" + std::to_string(param.ranks)} +
      param.settings;
  const Overrides graphs = run + kGraphs + Overrides{"model.cuda_graph_modules=" + param.modules};
  const auto reset = [&](uint64_t seed) {
    cuda_host::reset_runtime({.seed = seed, .devices = param.ranks, .guard = seed > 0});
    nccl_double::reset({.seed = seed});
  };
  reset(0);
  const std::vector<RunOutcome> plain = train_ranks(run);
  EXPECT_EQ(cuda_host::graph_counts().launched, 0);
  const int64_t kernels = cuda_host::runtime_counts().kernels;
  const int64_t expected = kCaptured * graphs_of_a_step(graphs, param.ranks);
  EXPECT_GT(expected, 0);
  for (const uint64_t seed : case_seeds(param.name, 1)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    reset(seed);
    EXPECT_TRUE(train_ranks(graphs) == plain);
    EXPECT_EQ(cuda_host::graph_counts().launched, expected);
    EXPECT_GT(cuda_host::graph_counts().made, 0);
    EXPECT_LE(cuda_host::graph_counts().made, expected / kCaptured) << "captured once";
    EXPECT_LT(cuda_host::runtime_counts().kernels, kernels);
    if (param.modules == "[]") {  // of layers: two of five steps, and the capture
      EXPECT_LT(cuda_host::runtime_counts().kernels, kernels * 17 / 20);
    }
  }
}

const Overrides kTensor{"model.tensor_model_parallel_size=2", "model.sequence_parallel=true"};
const Overrides kExperts{"model.num_moe_experts=4", "model.moe_shared_expert_intermediate_size=32"};

INSTANTIATE_TEST_SUITE_P(
    Runs, LayerGraphRuns,
    testing::Values(
        LayerCase{"llama", "llama", {}}, LayerCase{"attn", "llama", {}, "[attn]"},
        LayerCase{"mlp", "llama", {}, "[mlp]"},
        LayerCase{"bf16", "llama", {"mixed_precision=bf16_mixed"}},
        LayerCase{"fp16", "llama", {"mixed_precision=fp16_mixed"}},
        LayerCase{"dropout", "gpt2", {"model.hidden_dropout=0.1", "model.attention_dropout=0.1"}},
        LayerCase{"recompute",
                  "llama",
                  {"model.recompute_granularity=full", "model.recompute_method=uniform",
                   "model.recompute_num_layers=1"}},
        LayerCase{
            "recompute_modules",
            "llama",
            {"model.recompute_granularity=selective", "model.recompute_modules=[mlp,core_attn]"}},
        LayerCase{"evaluation", "llama", {"validation.eval_iters=1", "validation.eval_interval=2"}},
        LayerCase{"experts", "qwen2_moe", kExperts},
        LayerCase{"router", "qwen2_moe", kExperts, "[attn,moe_router,moe_preprocess]"},
        LayerCase{"fp8_current", "llama", {"mixed_precision=bf16_with_fp8_current_scaling_mixed"}},
        LayerCase{"fp8_delayed", "llama", {"mixed_precision=bf16_with_fp8_delayed_scaling_mixed"}},
        LayerCase{"dp2", "llama", {"ddp.bucket_size=2000"}, "[]", 2},
        LayerCase{"dp2_sharded_weights",
                  "llama",
                  {"ddp.data_parallel_sharding_strategy=optim_grads_params"},
                  "[]",
                  2},
        LayerCase{"tp2", "llama", kTensor, "[]", 2},
        LayerCase{"cp2", "llama", {"model.context_parallel_size=2"}, "[attn]", 2},
        LayerCase{"pp2", "llama", {"model.pipeline_model_parallel_size=2"}, "[]", 2},
        LayerCase{"ep2", "qwen2_moe", kExperts + Overrides{"model.expert_model_parallel_size=2"},
                  "[attn,moe_router,moe_preprocess]", 2}),
    [](const auto& info) { return info.param.name; });

TEST(LayerGraph, UsesThePlannedMemoryAndReportsItsPeak) {
  expect_planned_memory(kCuda + kGraphs, testing::Gt(0));
}

TEST(LayerGraph, MoreRowsInAStepAreCapturedToo) {
  // Steps of 2, 2, 4, 4, 4, 4 and 4 rows.
  const Overrides run = tiny_run() + kCuda +
                        Overrides{"train.train_iters=7", "train.rampup_batch_size=[2,2,4]",
                                  "train.global_batch_size=4", "train.micro_batch_size=1"};
  cuda_host::reset_runtime({.seed = 0});
  const RunOutcome plain = train_run(run);
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    cuda_host::reset_runtime({.seed = seed});
    EXPECT_TRUE(train_run(run + Overrides{"model.cuda_graph_impl=local",
                                          "model.cuda_graph_warmup_steps=1"}) == plain);
    EXPECT_GT(cuda_host::graph_counts().launched, 0);
  }
}

}  // namespace
}  // namespace viaduct
