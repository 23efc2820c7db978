// The first step of a dry run may have few micro-batches: the second one is the same, and in
// virtual time it takes as long.

#include <gtest/gtest.h>

#include "engine/dry_run.h"
#include "run/resolved_run.h"
#include "support/training.h"
#include "timeline/resolver.h"

namespace viaduct {
namespace {

using namespace test;

struct Layout {
  std::string name;
  Overrides overrides;
};

void PrintTo(const Layout& layout, std::ostream* out) {
  *out << layout.name;
}

class ShortFirstStep : public testing::TestWithParam<Layout> {};

/// The dry runs of all stages.
struct Stages {
  std::vector<GlobalRank> ranks;
  std::vector<DryRun> runs;
  std::vector<StepRecord> records;
};

Stages stages_of(const RunSetup& setup, bool is_short) {
  Stages stages;
  stages.ranks = resolve_run(setup.config, setup.model).parallelism.mesh.group({0}, {Axis::pp});
  stages.records.resize(stages.ranks.size());
  for (size_t i = 0; i < stages.ranks.size(); ++i)
    stages.runs.push_back(dry_run(setup, stages.ranks[i], &stages.records[i], false, false,
                                  {.short_first_step = is_short}));
  return stages;
}

const SequenceWindow& step_of(const DryRun& run) {
  return run.windows[static_cast<size_t>(MemorySequence::step)];
}

/// Seconds of the second step on a machine of round figures.
double step_seconds(const Stages& stages) {
  std::vector<RankRecord> ranks;
  for (size_t i = 0; i < stages.ranks.size(); ++i)
    ranks.push_back({stages.ranks[i].value, &stages.records[i],
                     stages.runs[i].windows[static_cast<size_t>(MemorySequence::initialize)].end,
                     step_of(stages.runs[i]).end});
  const auto times = resolve_times(
      ranks, {.op =
                  [](const OpEntryRecord& op) {
                    return 1e-6 + op.cost.total_flops() / 1e12 +
                           static_cast<double>(op.cost.bytes_read + op.cost.bytes_written) / 1e11;
                  },
              .collective =
                  [](const CollectiveRecord& c) {
                    return c.ranks == 1 ? 0 : 3e-6 + static_cast<double>(c.bytes) / 1e10;
                  },
              .launch = 1e-6,
              .host_wait = 1e-5,
              .slowdown = 1.1});
  double begin = 0, end = 0;
  for (size_t stage = 0; stage < times.size(); ++stage) {
    const StepRecord& record = stages.records[stage];
    const int64_t at = step_of(stages.runs[stage]).begin;
    for (size_t i = 0; i < record.ops().size(); ++i)
      if (record.ops()[i].at < at) begin = std::max(begin, times[stage].ops[i].end);
    for (size_t i = 0; i < record.collectives().size(); ++i)
      if (record.collectives()[i].launched_at < at)
        begin = std::max(begin, times[stage].collectives[i].end);
    end = std::max(end, times[stage].end);
  }
  return end - begin;
}

TEST_P(ShortFirstStep, TheSecondOneIsTheSame) {
  RunSetup setup = setup_of(tiny_run(GetParam().name.starts_with("experts") ? "mixtral" : "llama") +
                            Overrides{"model.num_layers=4", "train.micro_batch_size=1",
                                      "mixed_precision=bf16_mixed", "model.packed_weights=false"} +
                            GetParam().overrides);
  setup.config.cuda_target = CudaTarget::sm_90a;
  const Stages whole = stages_of(setup, false), cut = stages_of(setup, true);
  for (size_t i = 0; i < whole.runs.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_LT(cut.records[i].position(), whole.records[i].position());
    const SequenceWindow &a = step_of(whole.runs[i]), &b = step_of(cut.runs[i]);
    EXPECT_EQ(a.end - a.begin, b.end - b.begin);
    EXPECT_EQ(whole.runs[i].launches, cut.runs[i].launches);
    EXPECT_EQ(whole.runs[i].cost.total_flops(), cut.runs[i].cost.total_flops());
    EXPECT_EQ(whole.runs[i].peak.bytes, cut.runs[i].peak.bytes);
    EXPECT_EQ(whole.runs[i].bytes_after, cut.runs[i].bytes_after);
    ASSERT_EQ(whole.runs[i].traffic.size(), cut.runs[i].traffic.size());
    for (size_t t = 0; t < whole.runs[i].traffic.size(); ++t)
      EXPECT_EQ(whole.runs[i].traffic[t].bytes, cut.runs[i].traffic[t].bytes);
  }
  const double seconds = step_seconds(whole);
  EXPECT_NEAR(step_seconds(cut), seconds, 1e-9 * seconds);
}

std::vector<Layout> layouts() {
  const auto on = [](int ranks, int pp, const Overrides& more) {
    return Overrides{"dist.ranks=" + std::to_string(ranks),
                     "model.pipeline_model_parallel_size=" + std::to_string(pp),
                     "train.global_batch_size=" + std::to_string(8 * ranks / pp)} +
           more;
  };
  return {{"data", on(2, 1, {"ddp.use_distributed_optimizer=true"})},
          {"sharded", on(2, 1, {"ddp.data_parallel_sharding_strategy=optim_grads_params"})},
          {"stages", on(4, 2, {"ddp.use_distributed_optimizer=true"})},
          {"chunks", on(2, 2, {"model.virtual_pipeline_model_parallel_size=2"})},
          {"gpipe", on(2, 2, {"model.pipeline_schedule=gpipe"})},
          {"zero_bubble", on(2, 2, {"model.pipeline_schedule=zero_bubble"})},
          {"dualpipe_v", on(2, 2,
                            {"model.pipeline_schedule=dualpipe_v",
                             "model.virtual_pipeline_model_parallel_size=2"})},
          {"experts", on(2, 1, {"model.expert_model_parallel_size=2"})}};
}

INSTANTIATE_TEST_SUITE_P(DryRun, ShortFirstStep, testing::ValuesIn(layouts()),
                         [](const auto& info) { return info.param.name; });

TEST(ShortFirstStepOfGraphs, IsNotShort) {
  RunSetup setup =
      setup_of(tiny_run() + Overrides{"mixed_precision=bf16_mixed", "model.packed_weights=false",
                                      "train.micro_batch_size=1", "train.global_batch_size=4",
                                      "model.cuda_graph_impl=full_iteration"});
  setup.config.cuda_target = CudaTarget::sm_90a;
  EXPECT_EQ(stages_of(setup, true).records.front().position(),
            stages_of(setup, false).records.front().position());
}

}  // namespace
}  // namespace viaduct
