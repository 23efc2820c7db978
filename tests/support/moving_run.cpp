#include "support/moving_run.h"

#include <gtest/gtest.h>

#include "support/checkpoint_tensors.h"
#include "support/paths.h"
#include "support/rank_trainers.h"
#include "support/temporary_folder.h"
#include "train/trainer.h"

namespace viaduct::test {

Overrides three_steps(const std::string& model) {
  return {"checkpoint.pretrained_checkpoint=" + (test_data("golden") / model / "model").string(),
          "model.seq_length=16",
          "mixed_precision=fp32",
          "dataset.mock=true",
          "train.train_iters=3",
          "train.global_batch_size=2",
          "train.micro_batch_size=1",
          "optimizer.lr=1e-2",
          "scheduler.lr_warmup_iters=0",
          "validation.eval_iters=0",
          "logger.log_interval=1"};
}

void expect_goes_on(const Overrides& run,
                    const std::vector<std::pair<LayoutCase, LayoutCase>>& moves, size_t least) {
  const TemporaryFolder whole;
  train_ranks(run + Overrides{"checkpoint.save=" + whole.path().string()});
  const auto expected = metric(whole / "metrics.jsonl", "loss");
  for (const auto& [from, to] : moves) {
    SCOPED_TRACE(from.name + " to " + to.name);
    const TemporaryFolder saved, changed;
    train_ranks(run + from.overrides +
                Overrides{"checkpoint.save=" + saved.path().string(), "train.exit_interval=2"});
    const auto stored = saved_tensors(saved.path());
    with_trainers(run + to.overrides +
                      Overrides{"checkpoint.load=" + saved.path().string(),
                                "checkpoint.save=" + changed.path().string()},
                  [&](Trainer& trainer, Communicator& world) {
                    const bool leads = world.rank() == 0;
                    const auto held = held_tensors(trainer.engine(), world);
                    EXPECT_TRUE(!leads || held.size() > least);
                    // What nothing reads has no masters.
                    for (const auto& [tensor, bytes] : held)
                      EXPECT_TRUE(stored.at(tensor) == bytes) << tensor;
                    trainer.run();
                  });
    const auto losses = metric(changed / "metrics.jsonl", "loss");
    ASSERT_EQ(losses.size(), 1u);
    EXPECT_NEAR(losses[0], expected.at(2), 2e-5 * expected[2]);
  }
}

}  // namespace viaduct::test
