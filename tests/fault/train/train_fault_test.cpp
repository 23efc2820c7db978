// Failing runs: values that are not finite, full disks, damaged checkpoints.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/save_folder.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

/// A copy of the reference Llama whose weight `name` holds a NaN.
void write_model_with_nan(const std::filesystem::path& folder, const std::string& name) {
  const SafetensorsFolder source(test_data("golden/llama/model"));
  std::map<std::string, Tensor> tensors;
  for (const TensorInfo& info : source.tensors()) {
    const Tensor copy = host_tensor(info.dtype, info.shape);
    const std::string bytes = bytes_of(source.tensor(info.name));
    std::memcpy(copy.raw(), bytes.data(), bytes.size());
    if (info.name == name) copy.data<float>()[5] = std::nanf("");
    tensors.emplace(info.name, copy);
  }
  write_safetensors(folder / "model.safetensors", tensors);
  std::filesystem::copy(test_data("golden/llama/model/config.json"), folder / "config.json");
}

const Overrides kShort{
    "dataset.mock=true",         "model.seq_length=32",      "train.train_iters=4",
    "train.global_batch_size=4", "train.micro_batch_size=2", "scheduler.lr_warmup_iters=0",
    "validation.eval_iters=0",   "logger.log_interval=1",    "mixed_precision=bf16_mixed"};

TEST(NotFinite, ANanWeightIsNamedWithTheStep) {
  TemporaryFolder model;
  write_model_with_nan(model.path(), "model.layers.2.mlp.down_proj.weight");
  EXPECT_THAT(
      [&] {
        train_run(kShort + Overrides{"checkpoint.pretrained_checkpoint=" + model.path().string()});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("step 1: loss nan"),
                                 HasSubstr("weight blocks.2.mlp.down.weight"),
                                 HasSubstr("train.nan_loss_action=skip"))));
}

TEST(NotFinite, SkippingLeavesTheWeightsAlone) {
  TemporaryFolder model;
  write_model_with_nan(model.path(), "lm_head.weight");
  const Overrides run =
      kShort + Overrides{"checkpoint.pretrained_checkpoint=" + model.path().string(),
                         "train.nan_loss_action=skip"};
  const RunOutcome one = train_run(run + Overrides{"train.train_iters=1"});
  const RunOutcome four = train_run(run);
  EXPECT_EQ(four.state.skipped, 4);
  EXPECT_EQ(four.state.updates, 0);
  EXPECT_EQ(four.state.consumed_samples, 16);
  EXPECT_TRUE(four.tensors == one.tensors);
  const SafetensorsFolder source(test_data("golden/llama/model"));
  for (const TensorInfo& info : source.tensors()) {
    if (info.name != "lm_head.weight") {
      EXPECT_EQ(four.tensors.at(info.name), bytes_of(source.tensor(info.name))) << info.name;
    }
  }
}

TEST(NotFinite, ALearningRateThatExplodesStopsWithoutACheckpointOfIt) {
  TemporaryFolder folder;
  const Overrides run = tiny_run() + Overrides{"optimizer.lr=1e30", "checkpoint.save_interval=1",
                                               "checkpoint.save=" + folder.path().string()};
  EXPECT_THAT([&] { train_run(run); },
              ThrowsMessage<Error>(AllOf(HasSubstr("step 2: loss "), HasSubstr("not finite: "),
                                         Not(HasSubstr("none in")))));
  EXPECT_EQ(latest_step(folder.path()), 1);
  RunProcess process(viaduct_binary(),
                     Overrides{"train"} + run + Overrides{"checkpoint.load=null"});
  EXPECT_EQ(process.finish(), 1);
  EXPECT_THAT(process.err(), HasSubstr("viaduct: error: step 2: loss "));
}

TEST(NotFinite, AnOverflowOfFp16SkipsAndHalves) {
  // A scale near the top of FP32: every gradient overflows FP16.
  const Overrides run = tiny_run() + Overrides{"mixed_precision=fp16_mixed",
                                               "mixed_precision.initial_loss_scale=1.0e+30",
                                               "mixed_precision.hysteresis=2"};
  const auto after = [&](int steps) {
    return train_run(run + Overrides{"train.train_iters=" + std::to_string(steps)});
  };
  const RunOutcome one = after(1), two = after(2), three = after(3);
  EXPECT_EQ(one.state.scaler.scale, 1e30) << "the first overflow only lowers the scale";
  EXPECT_EQ(two.state.scaler.scale, 5e29);
  EXPECT_EQ(three.state.scaler.scale, 2.5e29);
  EXPECT_EQ(three.state.skipped, 3);
  EXPECT_EQ(three.state.updates, 0);
  EXPECT_TRUE(three.tensors == one.tensors);
}

TEST(NotFinite, ANanOfFp16IsNoOverflow) {
  TemporaryFolder model;
  write_model_with_nan(model.path(), "model.norm.weight");
  EXPECT_THAT(
      [&] {
        train_run(kShort + Overrides{"checkpoint.pretrained_checkpoint=" + model.path().string(),
                                     "mixed_precision=fp16_mixed"});
      },
      ThrowsMessage<Error>(HasSubstr("weight head.norm.weight")));
}

// A run of 8 steps, then sessions that resume from it.
class TrainFault : public testing::Test {
 protected:
  TrainFault() { train_run(run + Overrides{"train.train_iters=8"}); }

  Overrides session(const Overrides& more = {}) const { return Overrides{"train"} + run + more; }

  TemporaryFolder save;
  const Overrides run =
      tiny_run() + Overrides{"checkpoint.save=" + save.path().string(),
                             "checkpoint.save_interval=4", "scheduler.lr_decay_style=constant"};
  static constexpr int64_t kSmallDisk = 64 << 10;  // the shard has 300 KB
};

TEST_F(TrainFault, AFullDiskEndsTheRunAndLeavesThePreviousCheckpoint) {
  for (const char* how : {"checkpoint.async_save=false", "checkpoint.async_save=true"}) {
    RunProcess process(viaduct_binary(), session({how}), {}, kSmallDisk);
    EXPECT_EQ(process.finish(), 1);
    EXPECT_THAT(process.err(), AllOf(HasSubstr("resuming from"), HasSubstr("viaduct: error: "),
                                     HasSubstr("File too large")));
    EXPECT_EQ(latest_step(save.path()), 8);
    open_checkpoint(save.path())->verify();
  }
  const RunOutcome resumed = train_run(run);
  TemporaryFolder other;
  EXPECT_EQ(resumed, train_run(run + Overrides{"checkpoint.save=" + other.path().string()}));
}

TEST_F(TrainFault, WithAFullDiskTrainingGoesOnIfConfigured) {
  for (const char* how : {"checkpoint.async_save=false", "checkpoint.async_save=true"}) {
    RunProcess process(viaduct_binary(), session({how, "checkpoint.continue_on_save_failure=true"}),
                       {}, kSmallDisk);
    // All steps are done, but losing the result at the end is a failure.
    EXPECT_EQ(process.finish(), 1);
    EXPECT_THAT(process.err(), AllOf(HasSubstr("warning: "), HasSubstr("checkpoint of step 12"),
                                     HasSubstr("checkpoint of step 16"), HasSubstr("step 20/20")));
    EXPECT_EQ(latest_step(save.path()), 8);
    EXPECT_EQ(metric(save / "metrics.jsonl", "loss").size(), 20u);
  }
}

TEST_F(TrainFault, ADamagedCheckpointIsRefusedWithWhatAndWhere) {
  {
    std::fstream shard(save / "step_00000008/rank_00000.bin",
                       std::ios::in | std::ios::out | std::ios::binary);
    shard.seekp(70000);
    shard.write("\xff\x01\xff\x01", 4);
    ASSERT_TRUE(shard.good());
  }
  RunProcess refused(viaduct_binary(), session());
  EXPECT_EQ(refused.finish(), 1);
  EXPECT_THAT(refused.err(), AllOf(HasSubstr("damaged"), HasSubstr("step_00000008"),
                                   HasSubstr("tensor \""), Not(HasSubstr("step 9/"))));
  EXPECT_THAT(saved_steps(save.path()), ElementsAre(4, 8));

  RunProcess fallen(viaduct_binary(), session({"checkpoint.fallback_to_previous=true"}));
  EXPECT_EQ(fallen.finish(), 0);
  EXPECT_THAT(fallen.err(), AllOf(HasSubstr("warning"), HasSubstr("FALLING BACK"),
                                  HasSubstr("step_00000004 at step 4")));
  // The step that replaced the damaged one equals the original.
  TemporaryFolder other;
  EXPECT_EQ(train_run(run), train_run(run + Overrides{"checkpoint.save=" + other.path().string()}));
  EXPECT_THAT(saved_steps(save.path()), ElementsAre(4, 8, 12, 16, 20));
}

TEST_F(TrainFault, ATruncatedCheckpointIsRefused) {
  std::filesystem::resize_file(save / "step_00000008/rank_00000.bin", 1000);
  EXPECT_THAT([&] { train_run(run); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("truncated"), HasSubstr("step_00000008"))));
}

// The state after a kill between the last two operations of a first save.
TEST_F(TrainFault, StepsWithoutLatestAreGoneOnFromAndNotOverwritten) {
  const auto shard = save / "step_00000008" / "rank_00000.bin";
  const std::string before = read_file(shard);
  std::filesystem::remove(save / "latest");
  testing::internal::CaptureStderr();
  EXPECT_NO_THROW(train_run(run));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("names step_00000008"));
  EXPECT_EQ(read_file(shard), before);
  // Other folders are not repaired.
  std::filesystem::remove(save / "latest");
  TemporaryFolder other;
  EXPECT_THAT(
      [&] {
        train_run(run + Overrides{"checkpoint.load=" + save.path().string(),
                                  "checkpoint.save=" + (other / "run").string()});
      },
      ThrowsMessage<IoError>(HasSubstr("step_00000008")));
}

TEST_F(TrainFault, ACheckpointOfAnotherModelIsRefused) {
  EXPECT_THROW(train_run(run + Overrides{"model.ffn_hidden_size=128"}), ConfigError);
  EXPECT_THROW(train_run(run + Overrides{"model.num_layers=3",
                                         "checkpoint.allow_changes=[model.num_layers]"}),
               IoError);
}

TEST_F(TrainFault, AMissingCheckpointIsAnErrorIfWanted) {
  TemporaryFolder empty;
  const Overrides from = run + Overrides{"checkpoint.load=" + empty.path().string()};
  EXPECT_THROW(train_run(from + Overrides{"checkpoint.exit_on_missing_checkpoint=true"}),
               ConfigError);
  EXPECT_THAT([&] { train_run(run + Overrides{"checkpoint.ckpt_step=7"}); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("step_00000007: no such checkpoint"),
                                           HasSubstr("step_00000008"))));
}

}  // namespace
}  // namespace viaduct
