#pragma once
// A run with graphs uses the memory of its plan.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda_host/graphs.h"
#include "cuda_host/streams.h"
#include "run/rank_device.h"
#include "support/training.h"

namespace viaduct::test {

/// Trains five steps on the double of the runtime; `launched`: the launches of graphs.
inline void expect_planned_memory(const Overrides& graphs,
                                  const testing::Matcher<int64_t>& launched) {
  cuda_host::reset_runtime({.seed = 4});
  const RunSetup setup = setup_of(tiny_run() + graphs +
                                  Overrides{"train.train_iters=5", "mixed_precision=bf16_mixed"});
  const RankDevice rank = make_rank_device(setup.config.dist);
  TrainerHooks hooks;
  hooks.peak_effort = PeakEffort::glance;
  Trainer trainer(setup, *rank.device, rank.ops, hooks);
  const int64_t planned = trainer.planned_memory().peak.bytes;
  trainer.run();
  EXPECT_EQ(rank.device->memory().system_allocations, 1) << "the arena";
  EXPECT_EQ(rank.device->memory().unplanned_allocations, 0);
  EXPECT_EQ(rank.device->memory().peak_bytes, planned);
  EXPECT_THAT(cuda_host::graph_counts().launched, launched);
}

}  // namespace viaduct::test
