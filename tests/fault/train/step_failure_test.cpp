// A rank that fails inside a step, while the others wait for it there: all ranks end soon with its
// error, and what all of them still have, the state before the step, is saved.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/error.h"
#include "checkpoint/save_folder.h"
#include "run/rank_device.h"
#include "support/rank_trainers.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using namespace test;
using testing::Each;
using testing::HasSubstr;

/// Of a rank's thread: launches until one fails; negative: none does.
thread_local int64_t launches_left = -1;

/// An op whose launches fail when the thread's count is down.
template <class Args>
struct Failing {
  static inline void (*inner)(OpContext&, const Choice&, const Args&, void*) = nullptr;
  static void launch(OpContext& context, const Choice& choice, const Args& args, void* workspace) {
    if (launches_left >= 0 && launches_left-- == 0) throw DeviceError("no memory on the card");
    inner(context, choice, args, workspace);
  }
  static void replace(OpEntry<Args>& entry) { entry.launch = launch; }
};

enum class Where { backward, update };

/// Steps before the one that fails.
constexpr int64_t kWhole = 5;

class StepFailure : public testing::Test {
 protected:
  Overrides run(const Overrides& more) const {
    return tiny_run() +
           Overrides{"dist.threads_per_rank=1", "train.train_iters=8", "train.global_batch_size=6",
                     "train.micro_batch_size=1", "checkpoint.save=" + save.path().string()} +
           more;
  }

  /// The errors of all ranks of a run whose rank `bad` fails in step kWhole + 1, in the launch
  /// after `launches` others of the op.
  std::vector<std::string> errors(const Overrides& overrides, int bad, Where where,
                                  int64_t launches) {
    const RunSetup setup = setup_of(overrides);
    const OpTable ops = make_rank_device(setup.config.dist).ops;
    Failing<NormBackwardArgs>::inner = ops.norm_backward.launch;
    Failing<AdamWListArgs>::inner = ops.adamw.launch;
    const double begin = steady_seconds();
    const auto texts = errors_of_ranks(
        setup,
        [&](int rank, int64_t step) {
          if (rank == bad && step == kWhole) launches_left = launches;
        },
        [&](OpTable& own) {
          launches_left = -1;
          if (where == Where::backward) Failing<NormBackwardArgs>::replace(own.norm_backward);
          if (where == Where::update) Failing<AdamWListArgs>::replace(own.adamw);
        });
    EXPECT_LT(steady_seconds() - begin, 30);
    return texts;
  }

  TemporaryFolder save;
};

TEST_F(StepFailure, TheStateBeforeItIsSaved) {
  const Overrides layouts[] = {
      {"dist.ranks=1"},
      {"dist.ranks=2"},
      {"dist.ranks=2", "model.tensor_model_parallel_size=2"},
      {"dist.ranks=3", "ddp.use_distributed_optimizer=true"},
      {"dist.ranks=4", "train.global_batch_size=8", "model.pipeline_model_parallel_size=2",
       "checkpoint.async_save=true", "checkpoint.save_interval=5"},
  };
  for (const Overrides& layout : layouts) {
    const int ranks = layout.front().back() - '0';
    const TemporaryFolder elsewhere;
    const std::vector<RunOutcome> whole =
        train_ranks(run(layout + Overrides{"checkpoint.save=" + elsewhere.path().string()}));
    for (const int bad : {0, ranks - 1}) {
      std::filesystem::remove_all(save.path());
      const auto texts = errors(run(layout), bad, Where::backward, 2);
      EXPECT_THAT(texts, Each(HasSubstr("no memory on the card"))) << layout.back();
      ASSERT_TRUE(has_latest(save.path())) << layout.back();
      EXPECT_EQ(latest_step(save.path()), kWhole) << layout.back();
      EXPECT_THAT(last_line(save / "metrics.jsonl"), HasSubstr("\"stopped\":\"error\""));
    }
    const std::vector<RunOutcome> resumed = train_ranks(run(layout));
    for (size_t rank = 0; rank < whole.size(); ++rank)
      EXPECT_EQ(resumed[rank].tensors, whole[rank].tensors) << layout.back();
  }
}

// One that has begun its update has weights of two steps: the checkpoint before stays.
TEST_F(StepFailure, NothingIsSavedOnceARankHasBegunItsUpdate) {
  for (const char* ranks : {"dist.ranks=1", "dist.ranks=2"}) {
    std::filesystem::remove_all(save.path());
    const auto texts = errors(run({ranks, "checkpoint.save_interval=3"}), 0, Where::update, 0);
    EXPECT_THAT(texts, Each(HasSubstr("no memory on the card")));
    EXPECT_EQ(latest_step(save.path()), 3) << ranks;
    EXPECT_THAT(errors(run({ranks}), 0, Where::update, 1000000), Each(""));
    EXPECT_EQ(latest_step(save.path()), 8) << ranks;
  }
}

TEST_F(StepFailure, WithoutAFolderAllRanksEndAsSoon) {
  const auto texts =
      errors(run({"dist.ranks=4", "train.global_batch_size=8", "checkpoint.save=null"}), 2,
             Where::backward, 0);
  EXPECT_THAT(texts, Each(HasSubstr("no memory on the card")));
}

}  // namespace
}  // namespace viaduct
