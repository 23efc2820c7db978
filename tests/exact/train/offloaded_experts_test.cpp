// Experts whose saved values go to a second memory while layers, or their segments apart, run
// again: no bit changes, and memory is what the dry run says. What hosts read (numbers of rows)
// stays in the memory of the host, and so does what has a size that follows from the data.

#include <gtest/gtest.h>

#include "run/launch.h"
#include "run/rank_device.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

const Overrides kExperts =
    tiny_run("qwen3_moe") +
    Overrides{"model.num_moe_experts=4",      "model.moe_router_topk=2",
              "model.moe_ffn_hidden_size=32", "train.train_iters=2",
              "train.global_batch_size=8",    "dist.threads_per_rank=1",
              "logger.log_throughput=false",  "dist.distributed_timeout_minutes=1"};
const Overrides kFull{"model.recompute_granularity=full", "model.recompute_method=uniform",
                      "model.recompute_num_layers=1"},
    kApart = kFull + Overrides{"model.recompute_segments_apart=true"},
    kModules{"model.recompute_granularity=selective", "model.recompute_modules=[moe]"},
    kOffload{"model.cpu_offloading=true", "model.cpu_offloading_num_layers=2"};

/// The weights and moments of rank 0.
std::map<std::string, std::string> trained(const Overrides& overrides) {
  const RunSetup setup = setup_of(overrides);
  std::map<std::string, std::string> tensors;
  run_ranks(setup.config.dist, Launch(), [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {.peak_effort = PeakEffort::glance}, world);
    trainer.run();
    if (world->size() == 1) {  // rows of other ranks are in no plan
      EXPECT_EQ(rank.device->memory().unplanned_allocations, 0);
    }
    EXPECT_EQ(trainer.offload().done.put_bytes, 2 * trainer.planned_memory().offload.put_bytes);
    RunOutcome outcome = outcome_of(trainer);
    if (world->rank() == 0) tensors = std::move(outcome.tensors);
  });
  return tensors;
}

class OffloadedExperts : public testing::TestWithParam<Overrides> {};

TEST_P(OffloadedExperts, ChangeNoBit) {
  const Overrides layout = kExperts + GetParam();
  const auto kept = trained(layout);
  ASSERT_FALSE(kept.empty());
  for (const Overrides& again : {kApart, kFull, kModules, Overrides{}})
    EXPECT_TRUE(trained(layout + again + kOffload) == kept)
        << (again.empty() ? "kept" : again.back());
}

const Overrides kTwo{"dist.ranks=2", "model.expert_model_parallel_size=2"};
INSTANTIATE_TEST_SUITE_P(Layouts, OffloadedExperts,
                         testing::Values(Overrides{}, kTwo,
                                         kTwo +
                                             Overrides{"model.moe_token_dispatcher_type=allgather"},
                                         kTwo + Overrides{"model.moe_token_dispatcher_type=flex"}));

}  // namespace
}  // namespace viaduct
