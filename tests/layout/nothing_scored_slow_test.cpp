// Rows without a scored token in any layout: micro-batches and ranks that have none beside others
// that have some, and global batches in which nothing is scored, are those of one rank.

#include <gtest/gtest.h>

#include <algorithm>

#include "support/conversations.h"
#include "support/layout_run.h"
#include "support/rank_trainers.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

constexpr int64_t kSteps = 12;

/// One conversation of five has something to learn, and a global batch has four rows.
std::string write_data(const std::filesystem::path& folder) {
  auto all = conversations_of(random_lengths(4 * kSteps, 10, 32));
  for (size_t i = 0; i < all.size(); ++i) {
    if (i % 5 != 0) std::ranges::fill(all[i].mask, 0);
  }
  return write_conversations(folder / "chat", all);
}

struct Trained {
  TrainState state;
  std::vector<double> losses, skipped;
};

Trained train(const std::string& prefix, const std::filesystem::path& save, const Overrides& more) {
  const auto outcomes = train_ranks(
      tiny_run() +
      Overrides{"dataset.mock=false", "dataset.blend=[" + prefix + "]", "dataset.split=1,0,0",
                "model.num_layers=4", "train.train_iters=" + std::to_string(kSteps),
                "train.micro_batch_size=1", "optimizer.weight_decay=0.1",
                "checkpoint.save=" + save.string(), "logger.log_throughput=false",
                "dist.threads_per_rank=1", "dist.distributed_timeout_minutes=1"} +
      more);
  for (const RunOutcome& outcome : outcomes) EXPECT_EQ(outcome.state, outcomes.front().state);
  const auto file = save / "metrics.jsonl";
  return {outcomes.front().state, metric(file, "loss"), metric(file, "skipped")};
}

class NothingScoredLayouts : public testing::TestWithParam<LayoutCase> {};

TEST_P(NothingScoredLayouts, AreThoseOfOneRank) {
  TemporaryFolder folder;
  const std::string prefix = write_data(folder.path());
  for (const Overrides& rows : {Overrides{}, Overrides{"dataset.packed_sequence_size=32"}}) {
    const std::string kind = rows.empty() ? "plain" : "packed";
    const Trained one = train(prefix, folder / (kind + "_one"), rows);
    EXPECT_GT(one.state.nothing_scored, 0) << "the data have no such step";
    EXPECT_LT(one.state.nothing_scored, kSteps - 2);
    const Trained many = train(prefix, folder / (kind + "_many"), rows + GetParam().overrides);
    EXPECT_EQ(many.state.nothing_scored, one.state.nothing_scored) << kind;
    EXPECT_EQ(many.state.updates, one.state.updates) << kind;
    EXPECT_EQ(many.state.schedule_samples, one.state.schedule_samples) << kind;
    EXPECT_EQ(many.skipped, one.skipped) << kind;
    ASSERT_EQ(many.losses.size(), one.losses.size()) << kind;
    for (size_t i = 0; i < one.losses.size(); ++i)
      EXPECT_NEAR(many.losses[i], one.losses[i], 2e-4 * one.losses[i]) << kind << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, NothingScoredLayouts,
    testing::Values(layout(1, 1, 1, 2), layout(1, 1, 1, 4), layout(2, 1, 1, 1), layout(1, 2, 1, 1),
                    layout(1, 1, 2, 1), layout(1, 1, 2, 2),
                    layout(1, 1, 1, 2,
                           {"ddp.use_distributed_optimizer=true", "ddp.overlap_grad_reduce=true",
                            "ddp.overlap_param_gather=true"},
                           "overlapped"),
                    layout(1, 1, 1, 2, {"ddp.data_parallel_sharding_strategy=optim_grads_params"},
                           "sharded")),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
