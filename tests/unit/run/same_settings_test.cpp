// Ranks with different settings are reported, with both values, before any work.

#include "run/same_settings.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "comm/world.h"
#include "support/training.h"

namespace viaduct {
namespace {

using testing::ElementsAre;

/// The check's message on every rank, if `change` makes the ranks' configurations differ.
std::vector<std::vector<std::string>> problems_of(
    int ranks, const std::function<void(int rank, RunConfig& config)>& change) {
  const RunConfig config = test::setup_of(test::tiny_run()).config;
  std::vector<std::vector<std::string>> problems(static_cast<size_t>(ranks));
  run_thread_ranks(ranks, {.timeout_seconds = 60}, [&](std::shared_ptr<Communicator> world) {
    RunConfig mine = config;
    change(world->rank(), mine);
    try {
      check_same_settings(world->host(), mine);
    } catch (const ConfigError& error) {
      problems[static_cast<size_t>(world->rank())] = error.problems();
    }
  });
  return problems;
}

TEST(SameSettings, DifferencesAreNamedWithBothValuesOnAllRanks) {
  const auto problems = problems_of(4, [](int rank, RunConfig& config) {
    config.train.global_batch_size = 16;
    if (rank < 2) return;
    config.train.global_batch_size = rank * 8;
    config.checkpoint.save = "elsewhere";
  });
  for (const auto& of_rank : problems) {
    EXPECT_THAT(of_rank,
                ElementsAre("checkpoint.save: elsewhere on rank 2, null on rank 0: all ranks of a "
                            "run need the same value"))
        << "the lowest differing rank, with all of its differences";
  }
  const auto one = problems_of(3, [](int rank, RunConfig& config) {
    if (rank == 2) config.train.train_iters = 7;
  });
  for (const auto& of_rank : one) {
    EXPECT_THAT(of_rank, ElementsAre(testing::MatchesRegex(
                             "train.train_iters: 7 on rank 2, [0-9]+ on rank 0: all ranks .*")));
  }
}

TEST(SameSettings, ThreadsOfARankMayDiffer) {
  const auto problems =
      problems_of(2, [](int rank, RunConfig& config) { config.dist.threads_per_rank = rank + 1; });
  EXPECT_THAT(problems, testing::Each(testing::IsEmpty()));
}

}  // namespace
}  // namespace viaduct
