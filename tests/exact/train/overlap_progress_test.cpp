// Operations that the program orders to run under kernels do run under them: they complete while a
// rank computes and nobody waits for them. A communicator that leaves all its work to `wait` has
// the same order of events, and is detected.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/dry_run.h"
#include "engine/engine.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/overlap_probe.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::IsEmpty;

struct Seen {
  std::map<std::string, int> ordered;  // with a kernel between launch and wait
  std::map<std::string, int> hidden;   // complete after the kernels beside them
  int stuck = 0;
};

bool is_probed_kernel(const OpEntryRecord& op) {
  return op.op == "gemm" || op.op == "attention_forward" || op.op == "attention_backward";
}

std::map<std::string, int> ordered_overlaps(const StepRecord& record) {
  std::map<std::string, int> ordered;
  for (const CollectiveRecord& c : record.collectives()) {
    const bool overlaps =
        std::any_of(record.ops().begin(), record.ops().end(), [&](const OpEntryRecord& op) {
          return is_probed_kernel(op) && c.launched_at < op.at && op.at < c.completed_at;
        });
    if (overlaps && c.ranks > 1) ++ordered[std::string(choice_name(c.operation)) + " " + c.group];
  }
  return ordered;
}

/// Two steps of two micro-batches, as observed by rank 1 of two.
Seen two_steps(const Overrides& layout, bool defers) {
  const RunSetup setup =
      setup_of(tiny_run() +
               Overrides{"dist.ranks=2", "dist.threads_per_rank=1", "train.global_batch_size=4",
                         "train.micro_batch_size=1", "model.num_layers=2"} +
               layout);
  const ResolvedRun run = resolve_run(setup.config, setup.model);
  Seen seen;
  run_ranks(setup.config.dist, Launch(), [&](std::shared_ptr<Communicator> threads) {
    // A deferring communicator never progresses, so there is no reason to wait.
    OverlapProbe probe(defers ? 0 : 60);
    const auto world = probed(threads, probe, defers);
    const GlobalRank me{world->rank()};
    const RankDevice rank = make_rank_device(setup.config.dist);
    const OpTable ops = probed(rank.ops);
    StepRecord record;
    rank.device->set_record(&record);
    world->record_on(rank.device.get());
    {
      const ProbedThread thread(probe);
      Engine engine(*rank.device, ops, setup.model, run,
                    ParallelGroups(run.parallelism.mesh, world));
      engine.initialize();
      for (int step = 0; step < 2; ++step) {
        engine.begin_step({});
        run_blank_batches(setup, engine);
        engine.finish_step(1);
      }
    }
    rank.device->set_record(nullptr);
    if (me.value == 1) seen = {ordered_overlaps(record), probe.hidden(), probe.stuck()};
  });
  return seen;
}

struct OverlapProgressCase {
  std::string name;
  Overrides layout;
  std::vector<std::string> hides;
  int least = 1;  // how many of each, at least
};
void PrintTo(const OverlapProgressCase& c, std::ostream* out) {
  *out << c.name;
}

class OverlapProgress : public testing::TestWithParam<OverlapProgressCase> {};

TEST_P(OverlapProgress, WhatIsOrderedUnderKernelsIsCompleteAfterThem) {
  const Seen seen = two_steps(GetParam().layout, false);
  EXPECT_EQ(seen.stuck, 0);
  EXPECT_EQ(seen.hidden, seen.ordered);
  for (const std::string& what : GetParam().hides) {
    ASSERT_TRUE(seen.hidden.contains(what)) << what;
    EXPECT_GE(seen.hidden.at(what), GetParam().least) << what;
  }
}

TEST_P(OverlapProgress, ACommunicatorThatDefersAllToWaitHidesNothing) {
  const Seen seen = two_steps(GetParam().layout, true);
  for (const std::string& what : GetParam().hides)
    EXPECT_GT(seen.ordered.count(what), 0u) << what << ": the order of events does not show it";
  EXPECT_THAT(seen.hidden, IsEmpty());
  EXPECT_GT(seen.stuck, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Axes, OverlapProgress,
    testing::Values(
        OverlapProgressCase{"tensor",
                            {"model.tensor_model_parallel_size=2"},
                            {"send tp", "receive tp", "reduce_scatter tp", "all_gather tp"}},
        OverlapProgressCase{"data",
                            {"ddp.bucket_size=2000"},
                            {"reduce_scatter dp_cp.inner", "all_gather dp_cp.inner"}},
        OverlapProgressCase{
            "context", {"model.context_parallel_size=2"}, {"send cp", "receive cp"}},
        OverlapProgressCase{
            "shared_expert",
            {"model.family=qwen2_moe", "model.num_moe_experts=4",
             "model.moe_shared_expert_intermediate_size=32", "model.expert_model_parallel_size=2",
             "model.moe_shared_expert_overlap=true"},
            {"all_to_all expert_tp_ep"},
            16},  // of 2 steps, micro-batches and layers, in the forward and in the backward
        OverlapProgressCase{
            "experts_of_two_micro_batches",
            {"model.family=qwen3_moe", "mixed_precision=bf16_mixed", "model.num_moe_experts=4",
             "model.expert_model_parallel_size=2", "model.moe_router_topk=2",
             "comm_overlap.overlap_moe_expert_parallel_comm=true"},
            {"all_to_all expert_tp_ep"}},
        OverlapProgressCase{
            "experts_by_domain_of_two_micro_batches",
            {"model.family=qwen3_moe", "mixed_precision=bf16_mixed", "model.num_moe_experts=4",
             "model.expert_model_parallel_size=2", "model.moe_router_topk=2",
             "model.moe_token_dispatcher_type=flex", "dist.nvlink_domain_size=1",
             "comm_overlap.overlap_moe_expert_parallel_comm=true"},
            {"all_to_all ep.outer"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
