// Training with steps that are captured into graphs: in any order of the streams, weights, moments
// and metrics have the bits of a run whose kernels are launched one by one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda_host/graphs.h"
#include "cuda_host/streams.h"
#include "exact/cuda/planned_memory.h"
#include "run/rank_device.h"
#include "support/stream_seeds.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

const Overrides kCuda{"dist.device=cuda"};
const Overrides kOffload{"model.cpu_offloading=true", "model.cpu_offloading_num_layers=2"};
const Overrides kGraphs{"model.cuda_graph_impl=full_iteration", "model.cuda_graph_warmup_steps=1"};

struct StepGraphCase {
  std::string name, family;
  Overrides settings;
  int64_t graphs = 1;  // captured in the run
};
void PrintTo(const StepGraphCase& c, std::ostream* out) {
  *out << c.name;
}

class StepGraphs : public testing::TestWithParam<StepGraphCase> {};

TEST_P(StepGraphs, HaveTheBitsOfStepsWithout) {
  // The learning rate differs in each step.
  const Overrides run = tiny_run(GetParam().family) + kCuda +
                        Overrides{"train.train_iters=5", "scheduler.lr_warmup_iters=3"} +
                        GetParam().settings;
  cuda_host::reset_runtime({.seed = 0});
  const RunOutcome plain = train_run(run);
  EXPECT_EQ(cuda_host::graph_counts().launched, 0);
  const int64_t kernels = cuda_host::runtime_counts().kernels;
  const uint64_t seeds = stream_seeds(2);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    cuda_host::reset_runtime({.seed = seed, .guard = seed == 1});
    EXPECT_TRUE(train_run(run + kGraphs) == plain);
    EXPECT_EQ(cuda_host::graph_counts().launched, 4) << "all steps but the first";
    EXPECT_EQ(cuda_host::graph_counts().made, GetParam().graphs);
    // The host launches the kernels of two of five steps: of the first, and of the captured one.
    if (GetParam().graphs == 1) {
      EXPECT_LT(cuda_host::runtime_counts().kernels, kernels * 2 / 3);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Runs, StepGraphs,
    testing::Values(
        StepGraphCase{"llama", "llama", {}},
        StepGraphCase{"bf16", "llama", {"mixed_precision=bf16_mixed"}},
        StepGraphCase{"fp16", "llama", {"mixed_precision=fp16_mixed"}},
        StepGraphCase{"bf16_gradients",
                      "llama",
                      {"mixed_precision=bf16_mixed", "ddp.grad_reduce_in_fp32=false"}},
        StepGraphCase{
            "dropout", "gpt2", {"model.hidden_dropout=0.1", "model.attention_dropout=0.1"}},
        StepGraphCase{"recompute",
                      "llama",
                      {"model.recompute_granularity=full", "model.recompute_method=uniform",
                       "model.recompute_num_layers=1"}},
        StepGraphCase{
            "evaluation", "llama", {"validation.eval_iters=1", "validation.eval_interval=2"}},
        StepGraphCase{"mean_of_means", "llama", {"model.calculate_per_token_loss=false"}},
        StepGraphCase{"overlap", "llama", {"ddp.overlap_grad_reduce=true"}},
        StepGraphCase{"experts",
                      "qwen2_moe",
                      {"model.num_moe_experts=4", "model.moe_shared_expert_intermediate_size=32"}},
        StepGraphCase{
            "quantile_balancing",
            "qwen3_moe",
            {"model.num_moe_experts=4", "model.moe_router_topk=2",
             "model.moe_router_load_balancing_type=quantile_balancing",
             "model.moe_router_score_function=sigmoid", "model.moe_router_pre_softmax=false"}},
        StepGraphCase{"offloaded_layers", "llama", kOffload},
        StepGraphCase{
            "offloaded_modules",
            "llama",
            {"model.fine_grained_activation_offloading=true",
             "model.offload_modules=[core_attn, attn_proj]", "model.min_offloaded_tensor_size=0"}},
        StepGraphCase{
            "offloaded_states",
            "llama",
            {"optimizer.optimizer_cpu_offload=true", "optimizer.optimizer_offload_fraction=1",
             "optimizer.overlap_cpu_optimizer_d2h_h2d=true"}},
        StepGraphCase{
            "offloaded_weights",
            "llama",
            {"ddp.data_parallel_sharding_strategy=optim_grads_params", "model.cpu_offloading=true",
             "model.cpu_offloading_num_layers=1", "model.cpu_offloading_weights=true"}},
        StepGraphCase{
            "fp8_current", "llama", {"mixed_precision=bf16_with_fp8_current_scaling_mixed"}},
        StepGraphCase{
            "fp8_delayed", "llama", {"mixed_precision=bf16_with_fp8_delayed_scaling_mixed"}},
        StepGraphCase{
            "fp8_blocks", "llama", {"mixed_precision=bf16_with_fp8_subchannel_scaling_mixed"}},
        // Steps of 2, 2, 4, 4 and 4 rows.
        StepGraphCase{"more_rows",
                      "llama",
                      {"train.rampup_batch_size=[2,2,4]", "train.global_batch_size=4",
                       "train.micro_batch_size=1"},
                      2}),
    [](const auto& info) { return info.param.name; });

TEST(StepGraph, UsesThePlannedMemoryAndReportsItsPeak) {
  expect_planned_memory(kCuda + kGraphs, 4);
  expect_planned_memory(
      kCuda + kGraphs + Overrides{"ddp.data_parallel_sharding_strategy=optim_grads"}, 4);
  expect_planned_memory(kCuda + kGraphs + kOffload, 4);
}

// The host does not make the copies that a graph makes, and counts them all the same.
TEST(StepGraph, CountsTheCopiesOfItsLaunches) {
  for (const Overrides& graphs : {Overrides{}, kGraphs}) {
    cuda_host::reset_runtime({.seed = 4});
    const RunSetup setup =
        setup_of(tiny_run() + kCuda + graphs + kOffload + Overrides{"train.train_iters=5"});
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {.peak_effort = PeakEffort::glance});
    trainer.run();
    const OffloadCounts &step = trainer.offload().planned, &all = trainer.offload().done;
    EXPECT_GT(step.put_bytes, 0);
    EXPECT_EQ(all.put_bytes, 5 * step.put_bytes);
    EXPECT_EQ(all.fetched_bytes, 5 * step.fetched_bytes);
    EXPECT_EQ(all.puts, 5 * step.puts);
  }
}

}  // namespace
}  // namespace viaduct
