// When weights are gathered in a run of stages with several chunks each, read from the records of
// the ranks' devices. With align_param_gather a chunk's gather starts at the same virtual
// micro-batch on all stages, without it when the chunk before is first read; in both cases a stage
// waits for it where it first reads the chunk.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "run/launch.h"
#include "run/rank_device.h"
#include "support/training.h"
#include "train/trainer.h"

namespace viaduct {
namespace {

using test::Overrides;
using test::setup_of;
using test::tiny_run;
using test::operator+;

constexpr int kStages = 2, kChunks = 4, kMicroBatches = 4;

/// A gather of one chunk's weights in a step.
struct Gather {
  int64_t forwards_begun = 0;   // before it was launched
  bool launched_ahead = false;  // outside of forwards
  int64_t waited_in = -1;       // the forward, by number, in which the stage waited for it
};

struct StageEvents {
  int stage = 0;
  std::vector<Gather> gathers;         // by chunk
  std::vector<int64_t> first_forward;  // by chunk: the number of its first forward
};

HostBatch rows(int64_t number) {
  HostBatch batch;
  for (int32_t i = 0; i < 32; ++i) {
    batch.ids.push_back((i * 7 + static_cast<int32_t>(number)) % 64);
    batch.targets.push_back((i * 5 + 1) % 64);
    batch.positions.push_back(i);
    batch.loss_weight.push_back(1);
    batch.token_index.push_back(number * 32 + i);
  }
  batch.end_document();
  return batch;
}

StageEvents events_of(const StepRecord& record, int stage) {
  StageEvents events{stage, {}, std::vector<int64_t>(kChunks, -1)};
  std::vector<const ScopeRecord*> forwards;
  for (const ScopeRecord& scope : record.scopes()) {
    if (scope.name != "forward" || scope.kind != ScopeKind::phase) continue;
    int64_t& first = events.first_forward[static_cast<size_t>(scope.chunk)];
    if (first < 0) first = static_cast<int64_t>(forwards.size());
    forwards.push_back(&scope);
  }
  for (const CollectiveRecord& c : record.collectives()) {
    if (c.operation != Collective::all_gather || c.group != "dp_cp.inner") continue;
    Gather gather{0, true, -1};
    for (size_t i = 0; i < forwards.size(); ++i) {
      const auto inside = [&](int64_t at) {
        return forwards[i]->begin_at <= at && at <= forwards[i]->end_at;
      };
      if (forwards[i]->begin_at < c.launched_at) ++gather.forwards_begun;
      if (inside(c.launched_at)) gather.launched_ahead = false;
      if (c.completed_at >= 0 && inside(c.completed_at)) gather.waited_in = static_cast<int64_t>(i);
    }
    events.gathers.push_back(gather);
  }
  return events;
}

/// The second step of a run on two stages with two data-parallel ranks each: it gathers what the
/// first one updated.
std::vector<StageEvents> second_step(bool align) {
  const RunSetup setup = setup_of(
      tiny_run() + Overrides{"dist.ranks=4", "dist.threads_per_rank=1",
                             "dist.distributed_timeout_minutes=1", "model.num_layers=8",
                             "model.pipeline_model_parallel_size=2",
                             "model.virtual_pipeline_model_parallel_size=4",
                             "train.global_batch_size=8", "train.micro_batch_size=1",
                             "ddp.overlap_grad_reduce=true", "ddp.overlap_param_gather=true",
                             std::string("ddp.align_param_gather=") + (align ? "true" : "false")});
  std::vector<StageEvents> ranks;
  std::mutex mutex;
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const int number = world->rank();
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {}, std::move(world));
    Engine& engine = trainer.engine();
    StepRecord record;
    for (int step = 1; step <= 2; ++step) {
      if (step == 2) rank.device->set_record(&record);
      engine.begin_step({.update = step, .learning_rate = 1e-3});
      engine.run_micro_batches(kMicroBatches,
                               [&](int64_t i) { return rows(kMicroBatches * number + i); });
      engine.finish_step(32.0 * kMicroBatches, true);
    }
    rank.device->set_record(nullptr);
    const std::lock_guard lock(mutex);
    ranks.push_back(events_of(record, engine.groups().pp().rank()));
  });
  return ranks;
}

/// Checks of both modes.
void expect_waits_where_read(const StageEvents& events) {
  for (int64_t chunk = 0; chunk < kChunks; ++chunk) {
    const auto at = static_cast<size_t>(chunk);
    EXPECT_EQ(events.first_forward[at], kStages * chunk) << "groups of pp micro-batches";
    EXPECT_EQ(events.gathers[at].waited_in, events.first_forward[at])
        << "stage " << events.stage << " chunk " << chunk;
  }
}

TEST(ParamGatherOrder, AlignedGathersStartAtTheSameVirtualMicroBatchOnAllStages) {
  const auto ranks = second_step(true);
  ASSERT_EQ(ranks.size(), 4u);
  for (const StageEvents& events : ranks) {
    ASSERT_EQ(events.gathers.size(), static_cast<size_t>(kChunks)) << "a bucket a chunk";
    expect_waits_where_read(events);
    for (int64_t chunk = 0; chunk < kChunks; ++chunk) {
      const Gather& gather = events.gathers[static_cast<size_t>(chunk)];
      EXPECT_TRUE(gather.launched_ahead) << "stage " << events.stage << " chunk " << chunk;
      // Stage p is p forwards behind: chunks 0 and 1 are gathered at the start, chunk c where step
      // k + p is the first of chunk c − 1.
      const int64_t step = chunk < 2 ? 0 : gather.forwards_begun + events.stage;
      EXPECT_EQ(step, kStages * std::max<int64_t>(chunk - 1, 0)) << "chunk " << chunk;
      if (chunk < 2) {
        EXPECT_EQ(gather.forwards_begun, 0);
      }
    }
  }
}

TEST(ParamGatherOrder, OthersStartWhenTheChunkBeforeIsFirstRead) {
  const auto ranks = second_step(false);
  ASSERT_EQ(ranks.size(), 4u);
  for (const StageEvents& events : ranks) {
    ASSERT_EQ(events.gathers.size(), static_cast<size_t>(kChunks)) << "a bucket a chunk";
    expect_waits_where_read(events);
    for (int64_t chunk = 0; chunk < kChunks; ++chunk) {
      const Gather& gather = events.gathers[static_cast<size_t>(chunk)];
      EXPECT_FALSE(gather.launched_ahead) << "stage " << events.stage << " chunk " << chunk;
      const int64_t before = kStages * std::max<int64_t>(chunk - 1, 0);
      EXPECT_EQ(gather.forwards_begun, before + 1) << "stage " << events.stage;
    }
  }
}

}  // namespace
}  // namespace viaduct
