// When gradients are reduced in a run of stages with several chunks each, read from the records of
// the ranks' devices. With align_grad_reduce a chunk's reduction starts after the same number of
// backwards, counted from the last stage's first, on all stages; without it, inside the chunk's
// last backward. The sums are the same.

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "run/launch.h"
#include "run/rank_device.h"
#include "support/tensor_bytes.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

constexpr int64_t kStages = 2, kChunks = 4, kMicroBatches = 4;

struct Reduction {
  int64_t backwards_done = 0;  // before it was launched
  bool inside = false;         // launched while a backward ran
};

struct RankEvents {
  int64_t stage = 0;
  std::vector<Reduction> reductions;   // in order: the last chunk first
  std::vector<int64_t> last_backward;  // by chunk: the number of its last backward
  std::string gradients;               // bytes of the shard that the rank updates
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

RankEvents events_of(const StepRecord& record, int64_t stage) {
  RankEvents events{stage, {}, std::vector<int64_t>(kChunks, -1), {}};
  std::vector<const ScopeRecord*> backwards;
  for (const ScopeRecord& scope : record.scopes()) {
    if (scope.name != "backward" || scope.kind != ScopeKind::phase) continue;
    events.last_backward[static_cast<size_t>(scope.chunk)] = static_cast<int64_t>(backwards.size());
    backwards.push_back(&scope);
  }
  for (const CollectiveRecord& c : record.collectives()) {
    if (c.operation != Collective::reduce_scatter || c.group != "dp_cp.inner") continue;
    Reduction reduction;
    for (const ScopeRecord* backward : backwards) {
      if (backward->end_at < c.launched_at) ++reduction.backwards_done;
      reduction.inside |= backward->begin_at < c.launched_at && c.launched_at < backward->end_at;
    }
    events.reductions.push_back(reduction);
  }
  return events;
}

std::vector<RankEvents> step(bool align) {
  const RunSetup setup = setup_of(
      tiny_run() + Overrides{"dist.ranks=4", "dist.threads_per_rank=1",
                             "dist.distributed_timeout_minutes=1", "model.num_layers=8",
                             "model.pipeline_model_parallel_size=2",
                             "model.virtual_pipeline_model_parallel_size=4",
                             "train.global_batch_size=8", "train.micro_batch_size=1",
                             std::string("dist.align_grad_reduce=") + (align ? "true" : "false")});
  std::vector<RankEvents> ranks(4);
  std::mutex mutex;
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const int number = world->rank();
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {}, std::move(world));
    Engine& engine = trainer.engine();
    StepRecord record;
    rank.device->set_record(&record);
    engine.begin_step({.learning_rate = 1e-3});
    engine.run_micro_batches(kMicroBatches,
                             [&](int64_t i) { return rows(kMicroBatches * number + i); });
    engine.finish_step(32.0 * kMicroBatches, false);
    rank.device->set_record(nullptr);
    RankEvents events = events_of(record, engine.groups().pp().rank());
    for (const ShardRun& run : engine.store().shard_runs())
      events.gradients += bytes_of(run.gradient);
    const std::lock_guard lock(mutex);
    ranks[static_cast<size_t>(number)] = std::move(events);
  });
  return ranks;
}

TEST(GradReduceOrder, AlignedReductionsStartAtTheSameVirtualMicroBatchOnAllStages) {
  for (const RankEvents& events : step(true)) {
    ASSERT_EQ(events.reductions.size(), static_cast<size_t>(kChunks)) << "a bucket a chunk";
    for (int64_t i = 0; i < kChunks; ++i) {
      const Reduction& reduction = events.reductions[static_cast<size_t>(i)];
      const int64_t last = events.last_backward[static_cast<size_t>(kChunks - 1 - i)];
      EXPECT_FALSE(reduction.inside) << "stage " << events.stage << " chunk " << kChunks - 1 - i;
      const int64_t done = std::min(last + 1 + events.stage, kMicroBatches * kChunks);
      EXPECT_EQ(reduction.backwards_done, done) << "stage " << events.stage;
    }
  }
}

TEST(GradReduceOrder, OthersStartInsideTheChunksLastBackward) {
  for (const RankEvents& events : step(false)) {
    ASSERT_EQ(events.reductions.size(), static_cast<size_t>(kChunks));
    for (int64_t i = 0; i < kChunks; ++i) {
      const Reduction& reduction = events.reductions[static_cast<size_t>(i)];
      EXPECT_TRUE(reduction.inside);
      EXPECT_EQ(reduction.backwards_done,
                events.last_backward[static_cast<size_t>(kChunks - 1 - i)]);
    }
  }
}

TEST(GradReduceOrder, TheSumsAreTheSame) {
  const auto aligned = step(true), others = step(false);
  for (size_t rank = 0; rank < aligned.size(); ++rank) {
    ASSERT_FALSE(aligned[rank].gradients.empty());
    EXPECT_TRUE(aligned[rank].gradients == others[rank].gradients) << "rank " << rank;
  }
}

}  // namespace
}  // namespace viaduct
