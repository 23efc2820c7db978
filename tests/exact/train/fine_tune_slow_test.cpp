// Fine-tuning starts from the architecture, weights and tokenizer of a model folder.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "checkpoint/safetensors_reader.h"
#include "model/family.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

Overrides fine_tune(const std::filesystem::path& model) {
  return {"checkpoint.pretrained_checkpoint=" + model.string(),
          "dataset.blend=[" + test_data("indexed_dataset/bytes_uint8").string() + "]",
          "dataset.split=1,0,0",
          "model.seq_length=16",
          "mixed_precision=fp32",
          "train.train_iters=20",
          "train.global_batch_size=4",
          "train.micro_batch_size=2",
          "optimizer.lr=3e-3",
          "scheduler.lr_warmup_iters=0",
          "validation.eval_iters=0",
          "logger.log_interval=1"};
}

TEST(FineTune, FromHuggingFaceAndFromItsOwnCheckpoint) {
  const auto model = test_data("golden/llama/model");
  TemporaryFolder first, second;
  const Overrides into_first{"checkpoint.save=" + first.path().string()};

  const RunSetup setup = setup_of(fine_tune(model));
  EXPECT_EQ(setup.model.layers, 4);
  EXPECT_EQ(setup.model.kv_heads, 2);
  EXPECT_EQ(setup.model.vocabulary, 512);

  // Step 0 has the folder's weights: a run without steps keeps them.
  const RunOutcome still = train_run(fine_tune(model) + Overrides{"train.skip_train=true"});
  const SafetensorsFolder source(model);
  for (const TensorInfo& info : source.tensors())
    EXPECT_EQ(still.tensors.at(info.name), bytes_of(source.tensor(info.name))) << info.name;

  const RunOutcome trained = train_run(fine_tune(model) + into_first);
  const auto losses = metric(first / "metrics.jsonl", "loss");
  ASSERT_EQ(losses.size(), 20u);
  EXPECT_LT(losses.back(), losses.front() - 0.5);
  EXPECT_EQ(read_file(first / "step_00000020/config.json"), read_file(model / "config.json"));

  // The save folder is a model folder too: a new run starts from its weights with new data and
  // moments.
  train_run(fine_tune(first.path()) + Overrides{"checkpoint.save=" + second.path().string()});
  const auto again = metric(second / "metrics.jsonl", "loss");
  ASSERT_EQ(again.size(), 20u);
  EXPECT_LT(again.front(), losses.front() - 0.5);
  EXPECT_LT(again.back(), losses.back());
  const RunOutcome unmoved =
      train_run(fine_tune(first.path()) + Overrides{"train.skip_train=true"});
  for (const TensorInfo& info : source.tensors())
    EXPECT_EQ(unmoved.tensors.at(info.name), trained.tensors.at(info.name)) << info.name;
  EXPECT_EQ(unmoved.state.step, 0);
}

TEST(FineTune, ResumesItsOwnRunRatherThanStartingOver) {
  TemporaryFolder save;
  const Overrides run = fine_tune(test_data("golden/llama/model"));
  const Overrides saved = run + Overrides{"checkpoint.save=" + save.path().string()};
  train_run(saved + Overrides{"train.exit_interval=10"});
  EXPECT_EQ(train_run(saved), train_run(run));
}

TEST(FineTune, AnArchitectureOfOnesOwnIsRefused) {
  EXPECT_THROW(
      train_run(fine_tune(test_data("golden/llama/model")) + Overrides{"model.num_layers=3"}),
      ConfigError);
}

// The checkpoint's config.json describes the trained model, not the one read.
TEST(FineTune, OverridesOfAnArchitectureReachTheCheckpoint) {
  TemporaryFolder save;
  const auto model = test_data("golden/llama/model").string();
  train_run(tiny_run() + Overrides{"model.hf_config=" + model, "train.train_iters=1",
                                   "checkpoint.save=" + save.path().string()});
  const auto config = save / "step_00000001/config.json";
  const ModelConfig saved = read_hf_config(read_file(config), config.string());
  EXPECT_EQ(saved.layers, 2);
  EXPECT_EQ(saved.hidden, 32);
  EXPECT_EQ(saved.vocabulary, 64);
}

}  // namespace
}  // namespace viaduct
