// The best checkpoint of a run beside its newest ones, and runs that end because evaluations do not
// improve: saved, resumed, on several ranks.

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/save_folder.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/conversations.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Evaluates after every step. The learning rate grows, so that the loss falls at first and rises
/// after that.
Overrides evaluated_run(const TemporaryFolder& save, const Overrides& more = {}) {
  return tiny_run() +
         Overrides{"train.train_iters=8",
                   "validation.eval_interval=1",
                   "validation.eval_iters=1",
                   "dataset.mock=true",
                   "dist.threads_per_rank=1",
                   "checkpoint.save_interval=0",
                   "checkpoint.save=" + save.path().string()} +
         more;
}
const Overrides kKeep{"checkpoint.keep_best=validation_loss", "checkpoint.most_recent_k=1"};
/// Weights that do not change: no evaluation is better than the first.
const Overrides kStill{"optimizer.lr=1e-30"};

/// The step with the least validation loss after step 0.
int64_t best_of(const RunOutcome& run) {
  int64_t best = -1;
  double least = 0;
  for (const auto& [step, loss] : run.validations) {
    if (step == 0 || (best >= 0 && loss >= least)) continue;
    best = step, least = loss;
  }
  return best;
}

TEST(BestCheckpoint, IsKeptBesideTheNewest) {
  for (const char* async : {"false", "true"}) {
    TemporaryFolder save;
    const RunOutcome run = train_run(
        evaluated_run(save, kKeep + Overrides{std::string("checkpoint.async_save=") + async}));
    const int64_t best = best_of(run);
    ASSERT_GT(best, 0);
    EXPECT_EQ(best_step(save.path()), best);
    EXPECT_EQ(latest_step(save.path()), 8);
    std::vector<int64_t> steps{best};
    if (best != 8) steps.push_back(8);
    EXPECT_EQ(saved_steps(save.path()), steps);
    ASSERT_TRUE(run.state.best.has_value());
    EXPECT_EQ(run.state.best->step, best);
    EXPECT_EQ(CheckpointReader(save / step_folder_name(best)).step(), best);
  }
}

TEST(BestCheckpoint, OfWeightsThatDoNotChangeIsTheFirst) {
  TemporaryFolder save;
  train_run(evaluated_run(save, kKeep + kStill + Overrides{"checkpoint.save_interval=2"}));
  EXPECT_EQ(best_step(save.path()), 1);
  EXPECT_THAT(saved_steps(save.path()), ElementsAre(1, 8));
}

TEST(BestCheckpoint, IsPartOfAResumedRun) {
  TemporaryFolder save, whole;
  const RunOutcome one = train_run(evaluated_run(whole, kKeep));
  for (const char* stop : {"1", "2", "3", "5"}) {
    std::filesystem::remove_all(save.path());
    train_run(evaluated_run(save, kKeep + Overrides{std::string("train.exit_interval=") + stop}));
    const RunOutcome two = train_run(evaluated_run(save, kKeep));
    EXPECT_EQ(two.state, one.state);
    EXPECT_EQ(best_step(save.path()), best_step(whole.path()));
    EXPECT_EQ(saved_steps(save.path()), saved_steps(whole.path()));
  }
}

TEST(BestCheckpoint, ARunThatGoesBackForgetsALaterOne) {
  TemporaryFolder save;
  train_run(
      evaluated_run(save, {"checkpoint.keep_best=validation_loss", "checkpoint.save_interval=1"}));
  // `best` names what the continued history does not have.
  write_best(save.path(), 8);
  const RunOutcome run =
      train_run(evaluated_run(save, {"checkpoint.keep_best=validation_loss",
                                     "checkpoint.ckpt_step=2", "train.train_iters=3"}));
  EXPECT_EQ(best_step(save.path()), run.state.best->step);
  EXPECT_LE(*best_step(save.path()), 3);
}

TEST(BestCheckpoint, IsTheSameOnSeveralRanks) {
  TemporaryFolder one, two;
  const Overrides rows{"train.global_batch_size=4", "train.micro_batch_size=1"};
  const RunOutcome alone = train_run(evaluated_run(one, kKeep + rows));
  const RunSetup setup = setup_of(
      evaluated_run(two, kKeep + rows + Overrides{"dist.ranks=2", "checkpoint.async_save=true"}));
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {.peak_effort = PeakEffort::glance}, world);
    trainer.run();
  });
  EXPECT_EQ(best_step(two.path()), best_of(alone));
}

TEST(EarlyStopping, EndsTheRunWithACheckpointAndSaysSo) {
  TemporaryFolder save;
  const Overrides patient{"train.early_stopping_patience=3"};
  const RunOutcome run = train_run(evaluated_run(save, kStill + patient));
  EXPECT_EQ(run.state.step, 4);  // the first is the best, and three are not better
  EXPECT_EQ(latest_step(save.path()), 4);
  EXPECT_EQ(last_line(save / "metrics.jsonl"), "{\"step\":4,\"stopped\":\"early\"}");
  // It is at its end, until it gets more patience.
  const std::string lines = read_file(save / "metrics.jsonl");
  EXPECT_EQ(train_run(evaluated_run(save, kStill + patient)).state.step, 4);
  EXPECT_EQ(read_file(save / "metrics.jsonl"), lines);
  const RunOutcome longer =
      train_run(evaluated_run(save, kStill + Overrides{"train.early_stopping_patience=5"}));
  EXPECT_EQ(longer.state.step, 6);
}

TEST(EarlyStopping, CountsThroughAResume) {
  TemporaryFolder save;
  train_run(evaluated_run(
      save, kStill + Overrides{"train.early_stopping_patience=3", "train.exit_interval=2"}));
  EXPECT_EQ(latest_step(save.path()), 2);
  const RunOutcome run =
      train_run(evaluated_run(save, kStill + Overrides{"train.early_stopping_patience=3"}));
  EXPECT_EQ(run.state.step, 4);
}

// The loss of other rows, or of other tokens of them, is another figure.
TEST(EarlyStopping, ComparesAnewWhereTheLossIsMeasuredOnSomethingElse) {
  TemporaryFolder folder;
  const std::string data = test::write_conversations(
      folder / "chat", test::conversations_of(test::random_lengths(12, 5, 20)));
  const Overrides chat{"dataset.mock=false",
                       "dataset.blend_per_split=[[" + data + "],[" + data + "],null]",
                       "train.early_stopping_patience=3"};
  for (const char* change : {"validation.eval_iters=2", "dataset.answer_only_loss=false"}) {
    SCOPED_TRACE(change);
    TemporaryFolder save;
    const RunOutcome before =
        train_run(evaluated_run(save, kStill + chat + Overrides{"train.exit_interval=2"}));
    ASSERT_TRUE(before.state.best.has_value());
    const RunOutcome after = train_run(evaluated_run(save, kStill + chat + Overrides{change}));
    // Step 2 is evaluated again and is the first; three are not better.
    EXPECT_EQ(after.state.step, 5);
    ASSERT_TRUE(after.state.best.has_value());
    EXPECT_EQ(after.state.best->step, 2);
    EXPECT_NE(after.state.best->measured_on, before.state.best->measured_on);
    // What the session says of its evaluations has none of the values before.
    ASSERT_EQ(after.validations.size(), 4u);
    EXPECT_EQ(after.validations.front().first, 2);
    EXPECT_EQ(after.validations.front().second, after.state.best->value);
    EXPECT_NE(after.validations.front().second, before.validations.back().second);
  }
}

TEST(EarlyStopping, DoesNotEndARunThatImproves) {
  TemporaryFolder save;
  const RunOutcome run =
      train_run(evaluated_run(save, {"train.early_stopping_patience=8", "optimizer.lr=1e-3"}));
  EXPECT_EQ(run.state.step, 8);
}

TEST(WatchedMetric, OneThatTheRunDoesNotHaveIsRefusedBeforeAnythingIsWritten) {
  TemporaryFolder folder;
  const auto save = folder / "run";
  const auto run = [&](const Overrides& more) {
    train_run(tiny_run() + Overrides{"checkpoint.save=" + save.string()} + more);
  };
  EXPECT_THAT(
      [&] {
        run({"checkpoint.keep_best=banana", "validation.eval_iters=1"});
      },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr("checkpoint.keep_best: banana"),
                                       HasSubstr("validation_loss (lower is better)"))));
  EXPECT_THAT([&] { run({"train.early_stopping_patience=1"}); },
              ThrowsMessage<ConfigError>(HasSubstr("train.early_stopping_patience")));
  EXPECT_FALSE(std::filesystem::exists(save));
}

}  // namespace
}  // namespace viaduct
