// The memory of a rank equals that of its dry run to the byte for every combination of recompute,
// offload of saved values, states and weights, shards, state formats and layouts. CI tries some of
// a seeded list; `./viaduct.sh policies` tries all of it.

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/tensor_layouts.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

const std::vector<Overrides> kRecompute{
    {},
    {"model.recompute_granularity=selective", "model.recompute_modules=[core_attn, layernorm]"},
    {"model.recompute_granularity=selective", "model.recompute_modules=[mlp]"},
    {"model.recompute_granularity=full", "model.recompute_method=block",
     "model.recompute_num_layers=1"},
    {"model.recompute_granularity=full", "model.recompute_method=uniform",
     "model.recompute_num_layers=1"},
    {"model.recompute_granularity=full", "model.recompute_method=uniform",
     "model.recompute_num_layers=1", "model.recompute_segments_apart=true"}};
const Overrides kStates{"optimizer.optimizer_cpu_offload=true",
                        "optimizer.optimizer_offload_fraction=1", "ddp.bucket_size=20000"};
const std::vector<Overrides> kOffload{
    {},
    {"model.cpu_offloading=true", "model.cpu_offloading_num_layers=2"},
    {"model.fine_grained_activation_offloading=true", "model.offload_modules=[core_attn, mlp_norm]",
     "model.min_offloaded_tensor_size=0"},
    kStates,
    kStates + Overrides{"optimizer.overlap_cpu_optimizer_d2h_h2d=true"},
    kStates + Overrides{"model.cpu_offloading=true", "model.cpu_offloading_num_layers=4",
                        "optimizer.optimizer_offload_fraction=0.5"},
    kStates + Overrides{"model.cpu_offloading=true", "model.cpu_offloading_weights=true"}};
const std::vector<Overrides> kShards{
    {"ddp.use_distributed_optimizer=false"},
    {"ddp.data_parallel_sharding_strategy=optim"},
    {"ddp.data_parallel_sharding_strategy=optim_grads"},
    {"ddp.data_parallel_sharding_strategy=optim_grads_params"},
    {"ddp.data_parallel_sharding_strategy=optim_grads_params", "ddp.fsdp_double_buffer=true"}};
const Overrides kAware{"mixed_precision=bf16_mixed",
                       "optimizer.use_precision_aware_optimizer=true"};
const std::vector<Overrides> kFormats{
    {"mixed_precision=fp32"},
    {"mixed_precision=bf16_mixed", "optimizer.optimizer=adafactor"},
    {"mixed_precision=bf16_mixed"},
    kAware,
    kAware + Overrides{"ddp.grad_reduce_in_fp32=false", "optimizer.main_grads_dtype=bf16",
                       "optimizer.exp_avg_dtype=fp8", "optimizer.exp_avg_sq_dtype=fp8"}};
const std::vector<Overrides> kLayouts{{},
                                      {"dist.ranks=2"},
                                      {"dist.ranks=2", "model.tensor_model_parallel_size=2"},
                                      {"dist.ranks=2", "model.pipeline_model_parallel_size=2"},
                                      {"dist.ranks=2", "model.context_parallel_size=2"},
                                      {"dist.ranks=4", "model.tensor_model_parallel_size=2"},
                                      {"dist.ranks=4", "model.pipeline_model_parallel_size=2"}};

constexpr int kCombinations = 48, kSome = 8;

/// Valid combinations, drawn by the seed.
std::vector<Overrides> combinations() {
  std::mt19937_64 random(18);
  std::vector<Overrides> found;
  while (found.size() < kCombinations) {
    Overrides one =
        tiny_run() + Overrides{"model.num_layers=4",        "train.train_iters=2",
                               "train.global_batch_size=8", "train.micro_batch_size=1",
                               "dist.threads_per_rank=1",   "logger.log_throughput=false"};
    for (const auto* axis : {&kRecompute, &kOffload, &kShards, &kFormats, &kLayouts})
      one = one + (*axis)[random() % axis->size()];
    try {
      setup_of(one);
      found.push_back(std::move(one));
    } catch (const ConfigError&) {  // one of several that exclude each other
    }
  }
  return found;
}

TEST(MemoryCombinations, TakeWhatTheirDryRunsSay) {
  const auto list = combinations();
  const size_t step = all_policies() ? 1 : kCombinations / kSome;
  for (size_t i = 0; i < list.size(); i += step) {
    const RunSetup setup = setup_of(list[i]);
    SCOPED_TRACE(fmt::format("{}: {}", i, fmt::join(list[i], " ")));
    run_ranks(setup.config.dist, Launch(), [&](std::shared_ptr<Communicator> world) {
      const RankDevice rank = make_rank_device(setup.config.dist);
      Trainer trainer(setup, *rank.device, rank.ops, {.peak_effort = PeakEffort::glance}, world);
      trainer.run();
      const PlannedMemory& planned = trainer.planned_memory();
      EXPECT_EQ(rank.device->memory().peak_bytes, planned.peak.bytes);
      EXPECT_EQ(rank.device->memory().unplanned_allocations, 0);
      EXPECT_EQ(trainer.offload().done.put_bytes, 2 * planned.offload.put_bytes);
      EXPECT_EQ(trainer.offload().done.fetched_bytes, 2 * planned.offload.fetched_bytes);
      EXPECT_EQ(trainer.offload().done.most_bytes, planned.offload.most_bytes);
    });
  }
}

}  // namespace
}  // namespace viaduct
