// Predictions and searches that a deadline ends. Their clock counts how often it is looked at, so
// that the tests do not depend on the speed of the machine.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "plan/near_miss_runs.h"
#include "plan/reasons.h"
#include "plan/search.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

std::atomic<int64_t> looks{0};

double count_looks() {
  return static_cast<double>(++looks);
}

/// Passes at the look after `more` ones from now on.
Deadline after_looks(int64_t more) {
  return Deadline::at(static_cast<double>(looks + more), count_looks);
}

constexpr int64_t kNever = int64_t{1} << 40;

Overrides stages() {
  return tiny_run() + Overrides{"dist.ranks=2", "model.pipeline_model_parallel_size=2",
                                "model.num_layers=2", "train.micro_batch_size=1"};
}

RunSetup of_micro_batches(int64_t count) {
  return setup_of(stages() + Overrides{"train.global_batch_size=" + std::to_string(count)});
}

int64_t looks_of_dry_run(const RunSetup& setup) {
  const int64_t before = looks;
  StepRecord record;
  dry_run(setup, {0}, &record, false, true, {after_looks(kNever)});
  return looks - before;
}

TEST(DeadlineOfDryRun, IsLookedAtInEachMicroBatch) {
  const int64_t few = looks_of_dry_run(of_micro_batches(8));
  // A forward and a backward in each of the two steps.
  EXPECT_GE(looks_of_dry_run(of_micro_batches(16)), few + 4 * 8);
}

TEST(DeadlineOfDryRun, IsLookedAtInEachLayer) {
  const auto looks_of = [](int64_t layers) {
    return looks_of_dry_run(
        setup_of(tiny_run() + Overrides{"model.num_layers=" + std::to_string(layers)}));
  };
  const int64_t few = looks_of(2), more = looks_of(4), most = looks_of(6);
  EXPECT_GT(more, few);
  EXPECT_EQ(most - more, more - few);
}

TEST(DeadlineOfDryRun, EndsIt) {
  const RunSetup setup = of_micro_batches(16);
  const int64_t all = looks_of_dry_run(setup);
  StepRecord record;
  for (const int64_t part : {int64_t{0}, all / 2, all - 1})
    EXPECT_THROW(dry_run(setup, {0}, &record, false, true, {after_looks(part)}), DeadlineError);
  EXPECT_NO_THROW(dry_run(setup, {0}, &record, false, true, {after_looks(all)}));
}

TEST(DeadlineOfPrediction, EndsTheDryRunsAndTheVirtualTime) {
  const RunSetup setup = of_micro_batches(8);
  const Cluster cluster = load_cluster("dgx-h100");
  EXPECT_THROW(predict(setup, cluster, {}, 1, after_looks(3)), DeadlineError);
  StageRuns runs(setup, cluster, StageRuns::Keep::records);
  for (size_t stage = 0; stage < runs.stages(); ++stage) runs.run(stage);
  EXPECT_THROW(predict(runs, cluster, {}, nullptr, after_looks(3)), DeadlineError);
  EXPECT_NO_THROW(predict(runs, cluster, {}, nullptr, after_looks(kNever)));
}

TEST(DeadlineOfStages, SaysWhichRunsItEnded) {
  const Cluster cluster = load_cluster("dgx-h100");
  StageRuns first(of_micro_batches(8), cluster, StageRuns::Keep::memory),
      second(of_micro_batches(8), cluster, StageRuns::Keep::memory);
  ThreadPool pool(1);
  const auto all = [](const StageRuns&) { return true; };
  const int64_t before = looks;
  run_stages(pool, {&first}, all, after_looks(kNever));
  const int64_t of_one = looks - before;
  StageRuns again(of_micro_batches(8), cluster, StageRuns::Keep::memory);
  const auto ends = run_stages(pool, {&again, &second}, all, after_looks(of_one + 2));
  EXPECT_FALSE(ends[0].early());
  EXPECT_TRUE(ends[1].out_of_time);
  EXPECT_FALSE(ends[1].refused);
  EXPECT_TRUE(again.all_made());
  EXPECT_FALSE(second.all_made());
}

/// Layouts with many micro-batches, so that most looks are those of predictions.
PlanRequest request() {
  return {.overrides = stages() + Overrides{"mixed_precision=bf16_mixed", "dist.ranks=4",
                                            "model.num_layers=4", "train.global_batch_size=64",
                                            "model.context_parallel_size=1"},
          .cluster = load_cluster("dgx-h100")};
}

SearchResult search(int64_t limit) {
  return search_layouts(
      request(),
      {.time_limit_seconds = static_cast<double>(limit), .threads = 1, .clock = count_looks});
}

TEST(DeadlineOfSearch, APredictionIsGivenUpAndSaid) {
  int64_t given_up = 0, with_best = 0;
  const int64_t whole = static_cast<int64_t>(search(kNever).seconds);
  ASSERT_GT(whole, 400);
  constexpr int64_t kLimits = 12;
  for (int64_t i = 1; i < kLimits; ++i) {
    const int64_t limit = whole * i / kLimits;
    const SearchResult result = search(limit);
    // Looks after the limit: of what else would have begun.
    EXPECT_LE(result.seconds, static_cast<double>(limit + 40)) << limit;
    for (const Layout& layout : result.given_up) {
      ++given_up;
      EXPECT_GT(result.left, 0);
      for (const Candidate& c : result.candidates) EXPECT_NE(describe(c.layout), describe(layout));
    }
    with_best += !result.given_up.empty() && !result.candidates.empty();
  }
  EXPECT_GT(given_up, 0);
  EXPECT_GT(with_best, 0) << "the layouts that were predicted before are still there";
}

/// Pairs of dry runs of layers that near misses get, if the deadline passes at the look after
/// `more` ones. No layout fits.
int64_t pairs_of_near_misses(int64_t more) {
  const PlanRequest asked = request();
  std::vector<std::unique_ptr<SearchSpace>> spaces;
  spaces.push_back(std::make_unique<SearchSpace>(asked));
  SearchResult result;
  result.capacity_bytes = 1;
  for (const Layout& layout : spaces.front()->layouts())
    result.rejected.push_back({.layout = layout, .seconds = 1, .bytes = 2});
  ThreadPool pool(1);
  const int64_t before = spaces.front()->costs().pairs();  // those of the model's own cost
  look_at_near_misses(asked, spaces, pool, {}, result, after_looks(more));
  return spaces.front()->costs().pairs() - before;
}

TEST(DeadlineOfSpace, EndsTheDryRunsOfTheModelAndItsLayers) {
  const PlanRequest asked = request();
  const int64_t before = looks;
  const SearchSpace whole(asked, nullptr, after_looks(kNever));
  const int64_t all = looks - before;
  for (const int64_t part : {int64_t{1}, all / 2, all - 1})
    EXPECT_THROW(SearchSpace(asked, nullptr, after_looks(part)), DeadlineError) << part;
}

TEST(DeadlineOfNearMisses, EndsTheDryRunsOfTheirLayers) {
  EXPECT_GT(pairs_of_near_misses(kNever), 0);
  EXPECT_EQ(pairs_of_near_misses(3), 0);
}

}  // namespace
}  // namespace viaduct
