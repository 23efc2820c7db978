// Under zero bubble every weight gradient runs in its own half of the backward, also with tensor
// parallelism and its overlaps: the work that fills the bubble in the diagram exists.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"
#include "engine/dry_run.h"
#include "pipeline/replay_schedule.h"
#include "run/parallel_settings.h"
#include "run/resolved_run.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

RunSetup setup_of(const std::string& schedule, const Overrides& more = {}) {
  return test::setup_of(
      tiny_run() +
      Overrides{"model.num_layers=4", "train.global_batch_size=4", "train.micro_batch_size=1",
                "dist.threads_per_rank=1", "dist.ranks=4", "model.tensor_model_parallel_size=2",
                "model.pipeline_model_parallel_size=2", "model.pipeline_schedule=" + schedule} +
      more);
}

/// GEMMs of one micro-batch's actions on a stage.
struct Gemms {
  int count = 0;
  double flops = 0;
};
struct Halves {
  Gemms forward, input, weight;
};

/// For each micro-batch in the second step of the first rank of `stage`. The input half of a
/// backward comes before the weight half.
std::vector<Halves> halves_of(const RunSetup& setup, int stage) {
  StepRecord record;
  const DryRun run = dry_run(setup, {2 * stage}, &record);
  const SequenceWindow window = run.windows[static_cast<size_t>(MemorySequence::step)];
  std::vector<Halves> halves(static_cast<size_t>(micro_batches(setup.config)));
  std::vector<int> backwards(halves.size());
  for (const ScopeRecord& scope : record.scopes()) {
    const bool forward = scope.name == "forward";
    if (scope.kind != ScopeKind::phase || scope.micro_batch < 0 || scope.begin_at < window.begin ||
        scope.begin_at >= window.end || (!forward && scope.name != "backward"))
      continue;
    const auto micro_batch = static_cast<size_t>(scope.micro_batch);
    Halves& of = halves[micro_batch];
    Gemms& gemms = forward ? of.forward : backwards[micro_batch]++ == 0 ? of.input : of.weight;
    for (const OpEntryRecord& op : record.ops()) {
      if (op.op != "gemm" || op.at < scope.begin_at || op.at >= scope.end_at) continue;
      ++gemms.count;
      gemms.flops += op.cost.total_flops();
    }
  }
  return halves;
}

TEST(ZeroBubble, EveryWeightGradientIsInTheWeightHalf) {
  const RunSetup setup = setup_of("zero_bubble");
  ASSERT_TRUE(setup.config.tensor_overlap.tp_comm_overlap.value());
  for (const int stage : {0, 1}) {
    SCOPED_TRACE("stage " + std::to_string(stage));
    // qkv, proj, fc1 and fc2 of two blocks, and the head on the last stage.
    for (const Halves& halves : halves_of(setup, stage))
      EXPECT_EQ(halves.weight.count, 2 * 4 + stage);
  }
}

// The diagram has one unit each for forward, input half and weight half.
TEST(ZeroBubble, TheDrawnBubbleIsThatOfTheGemmsThatRun) {
  const RunSetup setup = setup_of("zero_bubble");
  ScheduleSettings settings = resolve_run(setup.config, setup.model).parallelism.schedule;
  settings.pp = 2;
  settings.micro_batches = micro_batches(setup.config);
  const Schedule schedule = make_schedule(settings);
  for (const Halves& halves : halves_of(setup, 0)) {
    const ComputeTimes times{1, halves.input.flops / halves.forward.flops,
                             halves.weight.flops / halves.forward.flops};
    EXPECT_NEAR(replay_schedule(schedule, times).bubble_fraction(),
                replay_schedule(schedule).bubble_fraction(), 1e-12);
  }
}

TEST(ZeroBubble, WhatDoesNotOverlapIsSaidAtTheStart) {
  EXPECT_THAT(setup_of("zero_bubble").notes, Contains(HasSubstr("qkv_wgrad none")));
  EXPECT_THAT(setup_of("1f1b").notes, Not(Contains(HasSubstr("wgrad"))));
  EXPECT_THAT(setup_of("zero_bubble", {"comm_overlap.tp_comm_overlap=false"}).notes,
              Not(Contains(HasSubstr("wgrad"))));
}

}  // namespace
}  // namespace viaduct
