// Checkpoints with dist.device=cuda: a run that stops and resumes has the bits of one that does
// not, in any order of the streams; the cpu resumes what a GPU saved, and a GPU what the cpu saved.

#include <gtest/gtest.h>

#include "cuda_host/nccl/nccl_double.h"
#include "cuda_host/streams.h"
#include "support/checkpoint_tensors.h"
#include "support/rank_trainers.h"
#include "support/stream_seeds.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using namespace test;

const Overrides kCuda{"dist.device=cuda"};
constexpr int kSteps = 4;

struct CudaCheckpointCase {
  std::string name, family;
  Overrides settings;
  int ranks = 1;
};
void PrintTo(const CudaCheckpointCase& c, std::ostream* out) {
  *out << c.name;
}

Overrides run_of(const std::string& family, int ranks) {
  return tiny_run(family) + Overrides{"train.train_iters=" + std::to_string(kSteps),
                                      "dist.ranks=" + std::to_string(ranks)};
}

/// With `guard`, host access to the device's memory is a fault.
void reset_devices(uint64_t seed, int ranks, bool guard) {
  cuda_host::reset_runtime({.seed = seed, .devices = ranks, .guard = guard});
  nccl_double::reset({.seed = seed});
}

class CudaResume : public testing::TestWithParam<CudaCheckpointCase> {};

TEST_P(CudaResume, FourStepsAreTwoAndTwo) {
  const CudaCheckpointCase& param = GetParam();
  const Overrides run = run_of(param.family, param.ranks) + kCuda + param.settings;
  reset_devices(0, param.ranks, false);
  const std::vector<RunOutcome> whole = train_ranks(run);
  for (const uint64_t seed : case_seeds(param.name, 1)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    reset_devices(seed, param.ranks, true);
    const TemporaryFolder folder;
    const Overrides saved = run + Overrides{"checkpoint.save=" + folder.path().string()};
    const auto half = train_ranks(saved + Overrides{"train.exit_interval=2"});
    ASSERT_EQ(half.at(0).state.step, 2);
    EXPECT_FALSE(half.at(0).tensors == whole.at(0).tensors);
    EXPECT_TRUE(train_ranks(saved) == whole);
    if (HasFailure()) return;
  }
}

const Overrides kBf16{"mixed_precision=bf16_mixed"};
const Overrides kTwoStages{"model.pipeline_model_parallel_size=2"};

INSTANTIATE_TEST_SUITE_P(
    Settings, CudaResume,
    testing::Values(
        CudaCheckpointCase{"fp32", "llama", {}},
        CudaCheckpointCase{
            "bf16_while_training", "llama",
            kBf16 + Overrides{"checkpoint.async_save=true", "checkpoint.save_interval=1"}},
        CudaCheckpointCase{
            "dropout", "gpt2", {"model.hidden_dropout=0.1", "model.attention_dropout=0.1"}},
        CudaCheckpointCase{
            "fp16",
            "llama",
            {"mixed_precision=fp16_mixed", "mixed_precision.initial_loss_scale=65536",
             "mixed_precision.loss_scale_window=2"}},
        CudaCheckpointCase{
            "fp8_delayed", "llama", {"mixed_precision=bf16_with_fp8_delayed_scaling_mixed"}},
        CudaCheckpointCase{"states_on_the_host", "llama",
                           kBf16 + Overrides{"optimizer.optimizer_cpu_offload=true",
                                             "optimizer.optimizer_offload_fraction=1"}},
        CudaCheckpointCase{"graph", "llama",
                           kBf16 + Overrides{"model.cuda_graph_impl=full_iteration",
                                             "model.cuda_graph_warmup_steps=1"}},
        CudaCheckpointCase{"muon", "llama", {"optimizer.optimizer=muon"}},
        CudaCheckpointCase{"experts_ep2", "mixtral",
                           kBf16 + Overrides{"model.num_moe_experts=4", "model.moe_router_topk=2",
                                             "model.expert_model_parallel_size=2"},
                           2},
        CudaCheckpointCase{"sharded_weights",
                           "llama",
                           {"ddp.data_parallel_sharding_strategy=optim_grads_params"},
                           2},
        CudaCheckpointCase{"tied_stages", "gpt2", kTwoStages, 2}),
    [](const auto& info) { return info.param.name; });

/// Two steps on one device, and two on another in another layout; and all four on the first.
void expect_that_it_goes_on(const Overrides& first, const Overrides& second) {
  const TemporaryFolder saved, same, other;
  reset_devices(3, 2, true);
  const auto to = [](const TemporaryFolder& folder) {
    return Overrides{"checkpoint.save=" + folder.path().string()};
  };
  const Overrides from{"checkpoint.load=" + saved.path().string()};
  train_ranks(first + to(saved) + Overrides{"train.exit_interval=2"});
  const auto at_two = saved_tensors(saved.path());

  with_trainers(second + from, [&](Trainer& trainer, Communicator& world) {
    EXPECT_EQ(trainer.state().step, 2);
    const auto held = held_tensors(trainer.engine(), world);
    if (world.rank() == 0) {
      EXPECT_TRUE(held == at_two);
    }
  });
  train_ranks(first + from + to(same));
  train_ranks(second + from + to(other));
  const auto expected = metric(same / "metrics.jsonl", "loss"),
             losses = metric(other / "metrics.jsonl", "loss");
  ASSERT_EQ(losses.size(), 2u);
  ASSERT_EQ(expected.size(), 2u);
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-4);
}

TEST(CudaCheckpoint, TheCpuResumesWhatAGpuSaved) {
  expect_that_it_goes_on(
      run_of("llama", 2) + kCuda + Overrides{"model.tensor_model_parallel_size=2"},
      run_of("llama", 1));
}

TEST(CudaCheckpoint, AGpuResumesWhatTheCpuSaved) {
  expect_that_it_goes_on(run_of("gpt2", 1), run_of("gpt2", 2) + kCuda + kTwoStages);
}

}  // namespace
}  // namespace viaduct
