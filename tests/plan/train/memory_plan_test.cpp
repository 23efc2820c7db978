// Memory planned from a dry run: a training run requests only its arena from the system, every
// allocation of its steps is at its planned place, and results equal those of a run without a plan,
// bit by bit.

#include "engine/plan_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "run/launch.h"
#include "run/rank_device.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::Each;

struct Case {
  std::string name;
  Overrides overrides;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

std::vector<Case> cases() {
  return {{"llama", {"mixed_precision=bf16_mixed", "validation.eval_iters=1"}},
          {"gpt2", {"model.family=gpt2", "model.hidden_dropout=0.1"}},
          {"fp16", {"mixed_precision=fp16_mixed"}},
          {"evaluated", {"model.family=qwen3", "validation.eval_iters=2"}},
          {"tensor", {"dist.ranks=2", "model.tensor_model_parallel_size=2"}},
          {"sequence",
           {"dist.ranks=2", "model.tensor_model_parallel_size=2", "model.sequence_parallel=true"}},
          {"pipeline", {"dist.ranks=2", "model.pipeline_model_parallel_size=2"}},
          // Twelve micro-batches pass through the stages in two groups of different sizes.
          {"evaluated_stages",
           {"dist.ranks=2", "model.pipeline_model_parallel_size=2", "train.global_batch_size=4",
            "train.micro_batch_size=1", "validation.eval_iters=3"}},
          {"evaluated_chunks",
           {"dist.ranks=4", "model.num_layers=4", "model.pipeline_model_parallel_size=2",
            "model.virtual_pipeline_model_parallel_size=2", "train.global_batch_size=8",
            "train.micro_batch_size=1", "validation.eval_iters=3"}},
          {"context", {"dist.ranks=2", "model.context_parallel_size=2"}},
          {"fp8_attention",
           {"dist.ranks=2", "model.context_parallel_size=2", "mixed_precision=bf16_mixed",
            "mixed_precision.fp8=hybrid", "mixed_precision.fp8_dot_product_attention=true",
            "mixed_precision.fp8_multi_head_attention=true"}},
          {"data", {"dist.ranks=2"}},
          {"distributed_optimizer",
           {"dist.ranks=2", "ddp.use_distributed_optimizer=true", "ddp.overlap_grad_reduce=true",
            "ddp.overlap_param_gather=true"}},
          {"sharded",
           {"dist.ranks=2", "ddp.data_parallel_sharding_strategy=optim_grads_params",
            "validation.eval_iters=1", "mixed_precision=bf16_mixed", "train.global_batch_size=8",
            "train.micro_batch_size=1"}},
          {"growing_sharded",
           {"dist.ranks=2", "train.train_iters=10", "train.global_batch_size=16",
            "train.micro_batch_size=1", "train.rampup_batch_size=[2, 2, 30]",
            "ddp.data_parallel_sharding_strategy=optim_grads_params"}},
          // The plan is for a step with the whole batch.
          {"growing", {"train.global_batch_size=8", "train.rampup_batch_size=[2, 2, 6]"}},
          {"growing_data",
           {"dist.ranks=2", "train.train_iters=10", "train.global_batch_size=16",
            "train.micro_batch_size=1", "train.rampup_batch_size=[2, 2, 30]",
            "mixed_precision=bf16_mixed", "ddp.overlap_param_gather=true", "ddp.bucket_size=3000",
            "ddp.grad_reduce_in_fp32=false", "validation.eval_iters=1"}},
          {"growing_zero_bubble",
           {"dist.ranks=2", "train.train_iters=10", "model.pipeline_model_parallel_size=2",
            "train.global_batch_size=8", "train.micro_batch_size=1",
            "train.rampup_batch_size=[2, 2, 8]", "model.pipeline_schedule=zero_bubble"}},
          {"v",
           {"dist.ranks=2", "model.pipeline_model_parallel_size=2",
            "model.virtual_pipeline_model_parallel_size=2", "model.num_layers=4",
            "train.global_batch_size=6", "train.micro_batch_size=1",
            "model.pipeline_schedule=dualpipe_v", "validation.eval_iters=1"}},
          {"tied_v",
           {"dist.ranks=2", "model.pipeline_model_parallel_size=2",
            "model.virtual_pipeline_model_parallel_size=2", "model.num_layers=4",
            "train.global_batch_size=6", "train.micro_batch_size=1",
            "model.pipeline_schedule=dualpipe_v", "validation.eval_iters=1",
            "model.share_embeddings_and_output_weights=true", "model.mtp_num_layers=1"}},
          {"tied_v_sharded",
           {"dist.ranks=4", "model.pipeline_model_parallel_size=2",
            "model.virtual_pipeline_model_parallel_size=2", "model.num_layers=4",
            "train.global_batch_size=12", "train.micro_batch_size=1",
            "model.pipeline_schedule=dualpipe_v", "validation.eval_iters=1",
            "model.share_embeddings_and_output_weights=true", "model.mtp_num_layers=1",
            "ddp.data_parallel_sharding_strategy=optim_grads_params"}}};
}

class MemoryPlanRuns : public testing::TestWithParam<Case> {};

TEST_P(MemoryPlanRuns, NothingIsAllocatedAfterTheStart) {
  const RunSetup setup = setup_of(
      tiny_run() +
      Overrides{"train.train_iters=4", "validation.eval_interval=2", "dist.threads_per_rank=1"} +
      GetParam().overrides);
  run_ranks(setup.config.dist, Launch(), [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    std::vector<int64_t> system_allocations;
    TrainerHooks hooks;
    hooks.stop_requested = [&] {
      system_allocations.push_back(rank.device->memory().system_allocations);
      return false;
    };
    Trainer trainer(setup, *rank.device, rank.ops, hooks, world);
    const PlannedMemory& planned = trainer.planned_memory();
    trainer.run();
    const MemoryStatistics& memory = rank.device->memory();
    EXPECT_GE(system_allocations.size(), 5u);
    EXPECT_THAT(system_allocations, Each(1)) << "the arena";
    EXPECT_EQ(memory.unplanned_allocations, 0);
    EXPECT_EQ(memory.peak_bytes, planned.peak.bytes);
    EXPECT_GE(planned.plan.arena_bytes, planned.lower_bound_bytes);
    EXPECT_GE(planned.lower_bound_bytes, planned.peak.bytes);
    EXPECT_LT(static_cast<double>(planned.plan.arena_bytes),
              1.1 * static_cast<double>(planned.lower_bound_bytes));
  });
}

INSTANTIATE_TEST_SUITE_P(Runs, MemoryPlanRuns, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

/// Losses and weights of a run on `device`.
std::pair<RunOutcome, std::string> run_on(Device& device, const RankDevice& rank,
                                          const RunSetup& setup) {
  Trainer trainer(setup, device, rank.ops, {});
  trainer.run();
  RunOutcome outcome{trainer.state(), {}, trainer.validations()};
  std::string weights;
  for (const Parameter* p : trainer.engine().store().parameters()) {
    const AcquiredWeight weight(trainer.engine().store(), *p, WeightUse::lookup);
    weights.append(static_cast<const char*>(weight.tensor().raw()),
                   static_cast<size_t>(weight.tensor().bytes()));
  }
  return {outcome, weights};
}

TEST(MemoryPlanRun, IsTheSameRunAsWithout) {
  const RunSetup setup =
      setup_of(tiny_run() + Overrides{"train.train_iters=5", "validation.eval_iters=1",
                                      "model.hidden_dropout=0.1", "mixed_precision=bf16_mixed"});
  const RankDevice planned = make_rank_device(setup.config.dist),
                   free_lists = make_rank_device(setup.config.dist);
  // A device that was already used gets no plan.
  free_lists.device->allocate(DType::u8, {1}, MemoryTag::other);
  const auto a = run_on(*planned.device, planned, setup);
  const auto b = run_on(*free_lists.device, free_lists, setup);
  EXPECT_GT(planned.device->memory().planned_bytes, 0);
  EXPECT_EQ(free_lists.device->memory().planned_bytes, 0);
  EXPECT_EQ(a.first, b.first);
  EXPECT_EQ(a.second, b.second);
}

// The data decide how many rows an expert gets. Without the room that the plan has for an even
// share of them, they would have memory of their own beside it: twice as much as planned.
TEST(MemoryPlanRun, RowsOfExpertsLieWithinThePlan) {
  const RunSetup setup = setup_of(
      tiny_run() + Overrides{"model.family=mixtral", "model.num_moe_experts=4",
                             "model.moe_router_topk=2", "model.num_layers=4",
                             "model.hidden_size=64", "model.ffn_hidden_size=256",
                             "model.seq_length=256", "train.global_batch_size=8",
                             "train.train_iters=2", "train.micro_batch_size=4", "dist.ranks=2",
                             "model.expert_model_parallel_size=2", "dist.threads_per_rank=1"});
  run_ranks(setup.config.dist, Launch(), [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {}, world);
    const auto planned = static_cast<double>(trainer.planned_memory().plan.arena_bytes);
    trainer.run();
    EXPECT_GT(rank.device->memory().unplanned_allocations, 0) << "the load is even: no test";
    const auto peak = static_cast<double>(rank.device->memory().peak_bytes);
    EXPECT_LT(static_cast<double>(rank.device->memory().reserved_bytes),
              1.3 * std::max(planned, peak));
  });
}

}  // namespace
}  // namespace viaduct
