// Steps in whose global batch no token is scored: their rows are consumed, and nothing is updated.

#include <gmock/gmock.h>

#include <algorithm>

#include "base/error.h"
#include "support/conversations.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::Each;
using testing::HasSubstr;
using testing::SizeIs;
using testing::ThrowsMessage;

constexpr int64_t kConversations = 40;

bool is_scored(const Conversation& one) {
  return std::ranges::find(one.mask.begin() + 1, one.mask.end(), 1) != one.mask.end();
}

/// Two of three conversations have nothing to learn.
class NothingScored : public testing::Test {
 protected:
  NothingScored() {
    auto all = conversations_of(random_lengths(kConversations, 10, 30));
    for (size_t i = 0; i < all.size(); ++i) {
      if (i % 3 != 0) std::ranges::fill(all[i].mask, 0);
    }
    scored = std::ranges::count_if(all, is_scored);
    prefix = write_conversations(folder / "chat", all);
  }
  Overrides run(const Overrides& more) const {
    return tiny_run() + Overrides{"dataset.mock=false",
                                  "dataset.blend=[" + prefix + "]",
                                  "dataset.split=1,0,0",
                                  "logger.log_throughput=false",
                                  "scheduler.lr_decay_style=constant",
                                  "optimizer.weight_decay=0.1",
                                  "train.global_batch_size=1",
                                  "train.micro_batch_size=1"} +
           more;
  }
  Overrides steps(int64_t count) const { return {"train.train_iters=" + std::to_string(count)}; }
  Overrides saved(const char* name) const {
    return {"checkpoint.save=" + (folder / name).string()};
  }
  /// A step without a scored token, behind one with some.
  int64_t blank_step() const {
    train_run(run(steps(kConversations) + saved("found")));
    const auto skipped = metric(folder / "found/metrics.jsonl", "skipped");
    int64_t step = 2;
    while (skipped.at(static_cast<size_t>(step)) == 0 ||
           skipped.at(static_cast<size_t>(step - 1)) != 0)
      ++step;
    return step + 1;
  }

  TemporaryFolder folder;
  std::string prefix;
  int64_t scored = 0;
};

TEST_F(NothingScored, ConsumesRowsWithoutAnUpdate) {
  for (const char* mean : {"true", "false"}) {
    const std::string name = std::string("run_") + mean;
    const RunOutcome outcome =
        train_run(run(steps(kConversations) + saved(name.c_str()) +
                      Overrides{std::string("model.calculate_per_token_loss=") + mean}));
    const TrainState& state = outcome.state;
    EXPECT_EQ(state.step, kConversations);
    EXPECT_EQ(state.updates, scored);
    EXPECT_EQ(state.nothing_scored, kConversations - scored);
    EXPECT_EQ(state.skipped, kConversations - scored);
    EXPECT_EQ(state.skipped_in_a_row, 0);
    EXPECT_EQ(state.consumed_samples, kConversations);
    EXPECT_EQ(state.schedule_samples, kConversations);
    const auto file = folder / name / "metrics.jsonl";
    EXPECT_THAT(metric(file, "step"), SizeIs(kConversations));
    EXPECT_THAT(metric(file, "loss"), SizeIs(scored)) << "null where nothing is scored";
    EXPECT_THAT(metric(file, "nothing_scored"), SizeIs(kConversations - scored));
    EXPECT_THAT(metric(file, "nothing_scored"), Each(1));
  }
}

TEST_F(NothingScored, WeightsAndMomentsStay) {
  const int64_t step = blank_step();
  for (const char* optimizer : {"adam", "sgd", "lion", "muon", "adafactor"}) {
    const Overrides of{std::string("optimizer.optimizer=") + optimizer};
    const RunOutcome before = train_run(run(steps(step - 1) + of)),
                     after = train_run(run(steps(step) + of)),
                     earlier = train_run(run(steps(step - 2) + of));
    EXPECT_EQ(before.tensors, after.tensors) << optimizer;
    EXPECT_NE(earlier.tensors, before.tensors) << optimizer;
  }
}

TEST_F(NothingScored, ComesAgainInAResumedRun) {
  const RunOutcome whole = train_run(run(steps(12)));
  EXPECT_GT(whole.state.nothing_scored, 2);
  for (const int stop : {2, 3, 4, 7}) {
    std::filesystem::remove_all(folder / "run");
    train_run(
        run(steps(12) + saved("run") + Overrides{"train.exit_interval=" + std::to_string(stop)}));
    EXPECT_EQ(train_run(run(steps(12) + saved("run"))), whole) << "stopped after step " << stop;
  }
}

TEST_F(NothingScored, LeavesTheLossScale) {
  const RunOutcome fp16 = train_run(
      run(steps(kConversations) + Overrides{"mixed_precision=fp16_mixed",
                                            "mixed_precision.initial_loss_scale=1024",
                                            "mixed_precision.loss_scale_window=1000000"}));
  EXPECT_EQ(fp16.state.scaler.scale, 1024);
  EXPECT_EQ(fp16.state.updates, scored);
  EXPECT_EQ(fp16.state.scaler.clean_steps, scored);
}

TEST_F(NothingScored, ADataSetOfNothingElseIsRefused) {
  auto blank = conversations_of(random_lengths(20, 10, 30));
  for (Conversation& one : blank) std::ranges::fill(one.mask, 0);
  blank.front().mask.front() = 1;  // nothing predicts a first token
  const std::string none = write_conversations(folder / "blank", blank);
  const std::string said = "dataset " + none + ": no token of the train split is scored";
  for (const Overrides& rows : {Overrides{}, Overrides{"dataset.packed_sequence_size=64"}}) {
    EXPECT_THAT([&] { train_run(run(rows + Overrides{"dataset.blend=[" + none + "]"})); },
                ThrowsMessage<ConfigError>(HasSubstr(said)));
    // As validation data.
    const Overrides valid{"dataset.blend=null", "validation.eval_iters=1",
                          "dataset.blend_per_split=[[" + prefix + "],[" + none + "],null]"};
    EXPECT_THAT([&] { train_run(run(rows + valid)); },
                ThrowsMessage<ConfigError>(HasSubstr("no token of the valid split is scored")));
    // Beside others it only changes nothing; and without the mask all tokens are scored.
    EXPECT_NO_THROW(train_run(
        run(rows + steps(2) + Overrides{"dataset.blend=[0.5," + prefix + ",0.5," + none + "]"})));
    EXPECT_NO_THROW(train_run(
        run(rows + steps(2) +
            Overrides{"dataset.blend=[" + none + "]", "dataset.answer_only_loss=false"})));
  }
}

}  // namespace
}  // namespace viaduct
