// What fails on one rank between steps, and is not the state itself, ends the run on all ranks
// with a checkpoint; what can be done without does not end it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/save_folder.h"
#include "support/paths.h"
#include "support/rank_trainers.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

class OneRankFailure : public testing::Test {
 protected:
  Overrides run(const Overrides& more) const {
    return tiny_run() +
           Overrides{"dist.threads_per_rank=1", "dist.distributed_timeout_minutes=1",
                     "train.train_iters=12", "train.micro_batch_size=1",
                     "checkpoint.save=" + save.path().string()} +
           more;
  }
  /// The errors of all ranks of a run; `between` is called on each rank after each of its steps.
  std::vector<std::string> errors(const Overrides& overrides,
                                  FunctionRef<void(int rank, int64_t step)> between) {
    return errors_of_ranks(setup_of(overrides), between);
  }

  TemporaryFolder save;
};

TEST_F(OneRankFailure, SavesTheStateOfAllRanks) {
  const Overrides layouts[] = {
      {"dist.ranks=1"},
      {"dist.ranks=2"},
      {"dist.ranks=2", "model.tensor_model_parallel_size=2"},
      {"dist.ranks=4", "model.pipeline_model_parallel_size=2", "validation.eval_iters=1",
       "validation.eval_interval=5", "checkpoint.async_save=true"},
  };
  const RunOutcome whole = train_run(run({"checkpoint.save=null"}));
  for (const Overrides& layout : layouts) {
    const int ranks = layout.front().back() - '0';
    for (const int bad : {0, ranks - 1}) {
      std::filesystem::remove_all(save.path());
      const auto texts = errors(run(layout), [&](int rank, int64_t step) {
        if (rank == bad && step == 5) throw std::runtime_error("no report");
      });
      EXPECT_THAT(texts, Each(HasSubstr("no report"))) << layout.back();
      if (ranks > 1) {
        EXPECT_THAT(texts, Each(HasSubstr("rank " + std::to_string(bad))));
      }
      ASSERT_TRUE(has_latest(save.path())) << layout.back();
      EXPECT_EQ(latest_step(save.path()), 5) << layout.back();
      EXPECT_THAT(last_line(save / "metrics.jsonl"), HasSubstr("\"stopped\":\"error\""));
    }
    EXPECT_THAT(errors(run(layout), [](int, int64_t) {}), Each(""));
    EXPECT_EQ(latest_step(save.path()), 12);
  }
  std::filesystem::remove_all(save.path());
  errors(run({}), [](int, int64_t step) {
    if (step == 5) throw std::runtime_error("no report");
  });
  EXPECT_EQ(train_run(run({})).tensors, whole.tensors) << "the rest of the run as without it";
}

TEST_F(OneRankFailure, AfterTheLastStepToo) {
  const auto texts = errors(run({"dist.ranks=2"}), [&](int rank, int64_t step) {
    if (rank == 1 && step == 12) throw std::runtime_error("no report");
  });
  EXPECT_THAT(texts, Each(HasSubstr("no report")));
  EXPECT_EQ(latest_step(save.path()), 12);
}

// A file system that does not answer for a while.
TEST_F(OneRankFailure, ALockThatCannotBeReadForAWhileEndsNothing) {
  const auto lock = save / "run.lock", aside = save / "run.lock.aside";
  for (const char* ranks : {"dist.ranks=1", "dist.ranks=2"}) {
    const auto texts = errors(run({ranks, "checkpoint.load=null"}), [&](int rank, int64_t step) {
      if (rank > 0) return;
      if (step == 3 && !std::filesystem::exists(aside)) {
        std::filesystem::rename(lock, aside);
        std::filesystem::create_symlink(lock, lock);
      }
      if (step == 6 && std::filesystem::exists(aside)) std::filesystem::rename(aside, lock);
    });
    EXPECT_THAT(texts, Each("")) << ranks;
    EXPECT_EQ(latest_step(save.path()), 12);
    EXPECT_EQ(metric(save / "metrics.jsonl", "loss").size(), 12u);
    std::filesystem::remove_all(save.path());
  }
}

// The run ends at the save after one that failed, and this one is made.
TEST_F(OneRankFailure, ASaveInTheBackgroundThatFailedIsNotTheLastOne) {
  const auto lock = save / "run.lock", aside = save / "run.lock.aside";
  for (const char* ranks : {"dist.ranks=1", "dist.ranks=2"}) {
    const auto texts =
        errors(run({ranks, "checkpoint.async_save=true", "checkpoint.save_interval=4"}),
               [&](int rank, int64_t step) {
                 if (rank > 0) return;
                 if (step == 3 && !std::filesystem::exists(aside)) {
                   std::filesystem::rename(lock, aside);
                   std::filesystem::create_symlink(lock, lock);
                 }
                 if (step == 6 && std::filesystem::exists(aside))
                   std::filesystem::rename(aside, lock);
               });
    EXPECT_THAT(texts, Each(HasSubstr("run.lock: cannot be opened"))) << ranks;
    EXPECT_EQ(latest_step(save.path()), 8);
    std::filesystem::remove_all(save.path());
  }
}

TEST_F(OneRankFailure, ATokenizerThatIsMovedAwayIsSavedAllTheSame) {
  const TemporaryFolder elsewhere;
  const auto folder = elsewhere / "tokenizer";
  std::filesystem::copy(test_data("tokenizer/bpe_shakespeare"), folder,
                        std::filesystem::copy_options::recursive);
  const auto texts = errors(run({"dist.ranks=2", "tokenizer.tokenizer_model=" + folder.string(),
                                 "model.vocab_size=2048", "checkpoint.save_interval=4"}),
                            [&](int rank, int64_t step) {
                              if (rank == 0 && step == 2) std::filesystem::remove_all(folder);
                            });
  EXPECT_THAT(texts, Each(""));
  EXPECT_EQ(latest_step(save.path()), 12);
  EXPECT_TRUE(std::filesystem::exists(save / "step_00000012" / "tokenizer.json"));
}

}  // namespace
}  // namespace viaduct
