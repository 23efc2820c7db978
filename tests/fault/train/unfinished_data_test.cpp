// Runs whose data do not last, or cannot be read: they go on, are refused before the first step, or
// save what they have.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/save_folder.h"
#include "data/indexed_dataset_writer.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

constexpr int32_t kEnd = 60;

class UnfinishedData : public testing::Test {
 protected:
  /// Documents of 50 tokens; `blank` of them hold the end of documents alone.
  void write_data(const std::string& name, int documents, int blank = 0) {
    IndexedDatasetWriter writer(folder / name, TokenType::uint16);
    for (int32_t d = 0; d < documents; ++d) {
      std::vector<int32_t> document(50, kEnd);
      for (int32_t i = 0; d >= blank && i < 49; ++i)
        document[static_cast<size_t>(i)] = (7 * d + i * i) % kEnd;
      writer.add_document(document);
    }
    writer.finish();
  }
  std::string prefix(const std::string& name) const { return (folder / name).string(); }
  Overrides run(const Overrides& more) const {
    return tiny_run() +
           Overrides{"dataset.mock=false", "dataset.blend=[" + prefix("data") + "]",
                     "dataset.split=1,0,0", "checkpoint.save=" + prefix("run")} +
           more;
  }
  Overrides command(const Overrides& more) const {
    return Overrides{"train"} + run(more + Overrides{"dist.threads_per_rank=1"});
  }

  TemporaryFolder folder;
};

// The steps that are left are counted in batches of the new size, and the rows that are read in
// those of the old one.
TEST_F(UnfinishedData, OtherBatchesGoOn) {
  write_data("data", 100);
  const Overrides big{"train.global_batch_size=8", "train.micro_batch_size=1"};
  const std::pair<Overrides, int64_t> changes[] = {
      {{"train.global_batch_size=2"}, 4 * 8 + 16 * 2},
      {{"train.global_batch_size=16"}, 4 * 8 + 16 * 16},
      {{"train.rampup_batch_size=[2,2,64]"}, -1},
      {{"dataset.dataloader_type=cyclic", "train.global_batch_size=2"}, 4 * 8 + 16 * 2},
  };
  for (const auto& [change, samples] : changes) {
    std::filesystem::remove_all(folder / "run");
    train_run(run(big + Overrides{"train.train_iters=20", "train.exit_interval=4"}));
    ASSERT_EQ(latest_step(folder / "run"), 4);
    const TrainState state = train_run(run(big + Overrides{"train.train_iters=20"} + change)).state;
    EXPECT_EQ(state.step, 20) << change.front();
    if (samples > 0) {
      EXPECT_EQ(state.consumed_samples, samples) << change.front();
    }
    EXPECT_GE(state.data_rows, state.consumed_samples) << change.front();
  }
}

TEST_F(UnfinishedData, OtherLengthsAndRanksGoOn) {
  write_data("data", 100);
  const Overrides first{"train.global_batch_size=8", "train.micro_batch_size=1",
                        "train.train_iters=20", "train.exit_interval=4"};
  const auto resume = [&](const Overrides& change) {
    std::filesystem::remove_all(folder / "run");
    train_run(run(first));
    RunProcess process(viaduct_binary(),
                       command(Overrides{"train.global_batch_size=8", "train.micro_batch_size=1",
                                         "train.train_iters=20"} +
                               change));
    EXPECT_EQ(process.finish(), 0) << process.err();
    return process.err();
  };
  // Batches of 6 rows from here on: 8 rounded down for three ranks.
  resume({"dist.ranks=3", "train.decrease_batch_size_if_needed=true"});
  EXPECT_EQ(latest_step(folder / "run"), 20);
  // Longer rows, and the learning rate of a run with larger batches, whose decay has more rows.
  EXPECT_THAT(
      resume({"model.seq_length=16",
              "checkpoint.allow_changes=[model.seq_length, model.max_position_embeddings]"}),
      HasSubstr("model.seq_length: was "));
  EXPECT_THAT(resume({"train.global_batch_size=16", "scheduler.lr_warmup_iters=0"}),
              AllOf(HasSubstr("the run ends at a learning rate of "),
                    HasSubstr("not at optimizer.min_lr = "),
                    HasSubstr("takes 320 rows, and the "
                              "run ends after 288")));
  // With smaller ones it is over before the run.
  const Overrides smaller{"train.global_batch_size=2", "scheduler.lr_warmup_iters=0"};
  EXPECT_THAT(resume(smaller), AllOf(HasSubstr("for the last 24 rows: its decay takes 40 rows"),
                                     HasSubstr("scheduler.lr_decay_samples=64")));
  EXPECT_THAT(resume(smaller + Overrides{"scheduler.lr_decay_samples=64"}),
              Not(HasSubstr("optimizer.min_lr")));
}

TEST_F(UnfinishedData, ABlendThatIsTooShortIsRefusedAtTheStart) {
  write_data("data", 10);
  write_data("more", 10);
  EXPECT_THAT(
      [&] {
        train_run(run({"dataset.blend=[" + prefix("data") + "," + prefix("more") + "]",
                       "train.train_iters=1000"}));
      },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr("dataset.blend: the run reads 4000 rows"),
                                       HasSubstr("more steps (train.train_iters)"))));
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

/// A file that becomes shorter than its rows need while the run goes on.
class ShorterFile : public UnfinishedData, public testing::WithParamInterface<int> {};

TEST_P(ShorterFile, TheStateIsSaved) {
  const std::string ranks = "dist.ranks=" + std::to_string(GetParam());
  for (const bool validation : {false, true}) {
    std::filesystem::remove_all(folder / "run");
    write_data("data", 2000);
    write_data("valid", 2000);
    const Overrides settings{
        "dataset.blend=null",
        "dataset.blend_per_split=[[" + prefix("data") + "],[" + prefix("valid") + "],null]",
        "logger.log_interval=1",
        "validation.eval_iters=200",
        "validation.eval_interval=5",
        ranks};
    RunProcess process(viaduct_binary(),
                       command(settings + Overrides{"train.train_iters=1000000"}));
    ASSERT_TRUE(process.wait_for_line("step       6/1000000")) << process.err();
    const std::string cut = prefix(validation ? "valid.bin" : "data.bin");
    const auto bytes = std::filesystem::file_size(cut);
    std::filesystem::resize_file(cut, 4096);
    EXPECT_EQ(process.finish(), 1) << process.err();
    EXPECT_THAT(process.err(), AllOf(HasSubstr("the run cannot go on after step "),
                                     HasSubstr(cut + ": cut short while in use"),
                                     HasSubstr("saved checkpoint of step ")));
    const int64_t step = latest_step(folder / "run");
    EXPECT_GE(step, 6);
    EXPECT_THAT(last_line(folder / "run/metrics.jsonl"), HasSubstr("\"stopped\":\"error\""));
    // What was saved goes on when the file is whole again.
    write_data(validation ? "valid" : "data", 2000);
    ASSERT_EQ(std::filesystem::file_size(cut), bytes);
    RunProcess again(viaduct_binary(), command(settings + Overrides{"train.train_iters=1000000",
                                                                    "train.exit_interval=" +
                                                                        std::to_string(step + 1)}));
    EXPECT_EQ(again.finish(), 0) << again.err();
    EXPECT_EQ(latest_step(folder / "run"), step + 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, ShorterFile, testing::Values(1, 2));

// Of plain text, whose ends of documents are not scored.
TEST_F(UnfinishedData, ABatchWithNothingToScoreChangesNothing) {
  write_data("data", 100, 10);
  const Overrides settings{"dataset.eod_mask_loss=true", "dataset.eod_id=" + std::to_string(kEnd),
                           "train.global_batch_size=1",  "train.micro_batch_size=1",
                           "model.seq_length=8",         "train.train_iters=500"};
  const TrainState state = train_run(run(settings)).state;
  EXPECT_EQ(state.step, 500);
  EXPECT_GT(state.nothing_scored, 0);
  EXPECT_EQ(state.updates + state.nothing_scored, 500);
}

}  // namespace
}  // namespace viaduct
