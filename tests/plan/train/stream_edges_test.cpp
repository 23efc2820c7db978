// A dry run of a device with side streams records the stream of everything and the waits between
// streams, so that the resolver can time it.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "device/recording.h"
#include "engine/dry_run.h"
#include "engine/engine.h"
#include "run/rank_device.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

/// Two steps of rank 0.
StepRecord two_steps(const Overrides& layout) {
  const RunSetup setup = setup_of(
      tiny_run() + Overrides{"train.micro_batch_size=1", "train.global_batch_size=4"} + layout);
  const ResolvedRun run = resolve_run(setup.config, setup.model);
  const auto device = make_sim_device(true);
  const OpTable ops = make_dry_run_device(setup.config).ops;
  StepRecord record;
  const Recording recording(*device, record);
  const auto world = make_sim_communicator(0, run.parallelism.mesh.ranks(), "world");
  world->record_on(device.get());
  Engine engine(*device, ops, setup.model, run, ParallelGroups(run.parallelism.mesh, world));
  engine.initialize();
  for (int step = 0; step < 2; ++step) {
    engine.begin_step({});
    run_blank_batches(setup, engine);
    engine.finish_step(1);
  }
  return record;
}

std::vector<Overrides> layouts() {
  const std::string tp = "model.tensor_model_parallel_size=2",
                    pp = "model.pipeline_model_parallel_size=2", buckets = "ddp.bucket_size=2000";
  return {{"dist.ranks=4", tp, buckets},
          {"dist.ranks=4", pp, "model.num_layers=4", "model.virtual_pipeline_model_parallel_size=2",
           buckets},
          {"dist.ranks=2", "mixed_precision=bf16_mixed", "ddp.grad_reduce_in_fp32=false",
           "ddp.reduce_scatter_with_fp32_accumulation=true", buckets}};
}

TEST(StreamEdges, OperationsAreBehindComputeAndBeforeWhatWaits) {
  for (const Overrides& layout : layouts()) {
    SCOPED_TRACE(layout.back() + " " + layout[1]);
    const StepRecord record = two_steps(layout);
    int64_t checked = 0;
    for (const CollectiveRecord& c : record.collectives()) {
      ASSERT_NE(c.stream, kComputeStream) << choice_name(c.operation) << " " << c.group;
      int64_t computed = 0, behind = 0;
      for (const OpEntryRecord& op : record.ops())
        if (op.stream == kComputeStream && op.at < c.launched_at) computed = op.stream_position;
      bool waited_for = false;
      for (const StreamEdgeRecord& edge : record.edges()) {
        if (edge.to_stream == c.stream && edge.from_stream == kComputeStream &&
            edge.to_position < c.stream_position)
          behind = std::max(behind, edge.from_position);
        waited_for |= edge.from_stream == c.stream && edge.from_position >= c.stream_position;
      }
      EXPECT_GE(behind, computed) << choice_name(c.operation) << " " << c.group;
      EXPECT_EQ(waited_for, c.completed_at >= 0) << choice_name(c.operation) << " " << c.group;
      ++checked;
    }
    EXPECT_GT(checked, 20);
  }
}

TEST(StreamEdges, SumsOfExchangedGradientsRunBesideCompute) {
  const StepRecord record = two_steps(layouts().back());
  std::set<std::string> beside;
  for (const OpEntryRecord& op : record.ops())
    if (op.stream != kComputeStream) beside.emplace(op.op);
  EXPECT_TRUE(beside.contains("copy"));
  EXPECT_FALSE(beside.contains("gemm"));
}

}  // namespace
}  // namespace viaduct
