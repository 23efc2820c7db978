// Runs whose second memory fails: the run stops with the reason and the place, its last checkpoint
// is complete, and no file remains.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <optional>

#include "base/error.h"
#include "checkpoint/save_folder.h"
#include "run/rank_device.h"
#include "support/file_size_limit.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// All layers of a tiny run are offloaded to a file in `folder`.
Overrides offloaded(const std::filesystem::path& folder) {
  return tiny_run() + Overrides{"model.cpu_offloading=true", "model.cpu_offloading_num_layers=2",
                                "memory.offload_path=" + folder.string()};
}

/// So are all masters and optimizer states.
Overrides states_offloaded(const std::filesystem::path& folder) {
  return tiny_run() + Overrides{"optimizer.optimizer_cpu_offload=true",
                                "optimizer.optimizer_offload_fraction=1",
                                "memory.offload_path=" + folder.string()};
}

class SecondMemoryOf : public testing::TestWithParam<Overrides (*)(const std::filesystem::path&)> {
};
INSTANTIATE_TEST_SUITE_P(Saved, SecondMemoryOf, testing::Values(&offloaded));
INSTANTIATE_TEST_SUITE_P(States, SecondMemoryOf, testing::Values(&states_offloaded));

TEST_P(SecondMemoryOf, AFullDiskStopsTheRunWithItsLastCheckpointWhole) {
  const TemporaryFolder folder, save;
  const Overrides run =
      GetParam()(folder.path()) + Overrides{"train.train_iters=6", "checkpoint.save_interval=2",
                                            "checkpoint.async_save=false",
                                            "checkpoint.save=" + save.path().string()};
  const RunOutcome whole = train_run(run + Overrides{"checkpoint.save=null"});
  {
    const RunSetup setup = setup_of(run);
    const RankDevice rank = make_rank_device(setup.config.dist);
    std::optional<FileSizeLimit> limit;
    int asked = 0;
    TrainerHooks hooks{.peak_effort = PeakEffort::glance};
    hooks.stop_requested = [&] {  // asked before the first step, then after each
      if (++asked == 4) limit.emplace(0);
      return false;
    };
    Trainer trainer(setup, *rank.device, rank.ops, hooks);
    EXPECT_THAT([&] { trainer.run(); }, ThrowsMessage<IoError>(AllOf(
                                            HasSubstr("second memory in " + folder.path().string()),
                                            HasSubstr("were written: File too large"))));
    EXPECT_EQ(trainer.state().step, 3);
  }
  EXPECT_EQ(latest_step(save.path()), 2);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_EQ(train_run(run), whole) << "it resumes from the checkpoint";
}

TEST_P(SecondMemoryOf, NoRoomIsSaidBeforeTheFirstStep) {
  const TemporaryFolder folder;
  RunProcess full(viaduct_binary(), Overrides{"train"} + GetParam()(folder.path()), {}, 100'000);
  EXPECT_EQ(full.finish(), 1);
  EXPECT_THAT(full.err(), AllOf(HasSubstr("second memory in " + folder.path().string()),
                                HasSubstr("no room for its"), HasSubstr("memory.offload_path")));
  // If one rank of two fails, both end.
  RunProcess ranks(viaduct_binary(),
                   Overrides{"train"} + GetParam()(folder.path()) + Overrides{"dist.ranks=2"}, {},
                   100'000);
  EXPECT_EQ(ranks.finish(), 1);
}

TEST(SecondMemoryRun, WrongSettingsAreRefused) {
  const TemporaryFolder folder;
  RunProcess missing(viaduct_binary(), Overrides{"train"} + offloaded(folder / "missing"));
  EXPECT_EQ(missing.finish(), 2);
  EXPECT_THAT(missing.err(),
              AllOf(HasSubstr("memory.offload_path: " + (folder / "missing").string()),
                    HasSubstr("No such file or directory")));
  RunProcess small(viaduct_binary(), Overrides{"train"} + offloaded(folder.path()) +
                                         Overrides{"memory.offload_bytes=100000"});
  EXPECT_EQ(small.finish(), 2);
  EXPECT_THAT(small.err(), AllOf(HasSubstr("memory.offload_bytes: 100000, but a step needs "),
                                 HasSubstr("in the second memory of a rank")));
}

TEST(SecondMemoryRun, AKilledRunLeavesNoFile) {
  const TemporaryFolder folder;
  RunProcess run(viaduct_binary(), Overrides{"train"} + offloaded(folder.path()) +
                                       Overrides{"train.train_iters=100000"});
  ASSERT_TRUE(run.wait_for_line("second memory (file in")) << run.err();
  ASSERT_TRUE(run.wait_for_line("loss")) << run.err();
  run.send(SIGKILL);
  EXPECT_EQ(run.finish(), -SIGKILL);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace viaduct
