// A run that stops and resumes continues bitwise: weights, moments, random numbers, data position,
// loss scaler, schedules.

#include <gtest/gtest.h>

#include "support/conversations.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

struct ResumeCase {
  const char* name;
  const char* family;
  Overrides overrides;
};

void PrintTo(const ResumeCase& c, std::ostream* out) {
  *out << c.name;
}

const Overrides kDropout{"model.hidden_dropout=0.1", "model.attention_dropout=0.1"};
const Overrides kPacked{"dataset.reset_attention_mask=true", "dataset.reset_position_ids=true",
                        "dataset.eod_mask_loss=true", "dataset.eod_id=3"};
const Overrides kSchedules{"scheduler.lr_warmup_iters=6", "scheduler.start_weight_decay=0.01",
                           "scheduler.end_weight_decay=0.2",
                           "scheduler.weight_decay_incr_style=linear"};
const Overrides kAsync{"checkpoint.async_save=true", "checkpoint.save_interval=3"};
// Overflows at the start because of the initial scale, growth after clean steps.
const Overrides kScaler{"mixed_precision=fp16_mixed", "mixed_precision.loss_scale_window=4",
                        "mixed_precision.initial_loss_scale=1073741824"};

class Resume : public testing::TestWithParam<ResumeCase> {};

TEST_P(Resume, TwentyStepsAreTenAndTen) {
  const Overrides run = tiny_run(GetParam().family) + GetParam().overrides;
  const RunOutcome whole = train_run(run);
  ASSERT_EQ(whole.state.step, 20);

  TemporaryFolder folder;
  const Overrides saved = run + Overrides{"checkpoint.save=" + folder.path().string()};
  const RunOutcome half = train_run(saved + Overrides{"train.exit_interval=10"});
  ASSERT_EQ(half.state.step, 10);
  const RunOutcome resumed = train_run(saved);
  EXPECT_EQ(resumed.state, whole.state);
  for (const auto& [name, bytes] : whole.tensors) {
    EXPECT_TRUE(resumed.tensors.at(name) == bytes) << name;
    EXPECT_FALSE(half.tensors.at(name) == bytes) << name << " does not move";
  }
  EXPECT_EQ(metric(folder / "metrics.jsonl", "loss").size(),
            metric(folder / "metrics.jsonl", "step").size() - 1)
      << "one line says that the first session stopped";
}

INSTANTIATE_TEST_SUITE_P(
    Settings, Resume,
    testing::Values(
        ResumeCase{"fp32", "llama", kDropout + kSchedules},
        ResumeCase{"fp32_packed_rows", "gpt2", kDropout + kPacked},
        ResumeCase{"fp32_async", "llama", kDropout + kAsync},
        ResumeCase{"bf16", "llama",
                   kDropout + kPacked + kSchedules + Overrides{"mixed_precision=bf16_mixed"}},
        ResumeCase{"bf16_gpt2_async", "gpt2",
                   kDropout + kAsync + Overrides{"mixed_precision=bf16_mixed"}},
        ResumeCase{
            "fp8_current", "llama",
            kDropout + Overrides{"mixed_precision=bf16_mixed", "mixed_precision.fp8=hybrid"}},
        ResumeCase{"fp8_delayed", "llama",
                   kDropout + Overrides{"mixed_precision=bf16_with_fp8_delayed_scaling_mixed"}},
        ResumeCase{"mxfp8", "gpt2", Overrides{"mixed_precision=bf16_with_mxfp8_mixed"}},
        ResumeCase{"fp16", "llama", kDropout + kScaler + kSchedules},
        ResumeCase{"fp16_async", "gpt2", kDropout + kScaler + kAsync}),
    [](const auto& info) { return std::string(info.param.name); });

// Twenty steps read some three epochs.
TEST(Resume, OfConversationsInTheMiddleOfAnEpoch) {
  TemporaryFolder data;
  const std::string prefix =
      write_conversations(data / "chat", conversations_of(random_lengths(60, 5, 30)));
  const Overrides rows{"dataset.mock=false", "dataset.blend=[" + prefix + "]",
                       "dataset.split=80,20,0", "validation.eval_iters=1",
                       "validation.eval_interval=10"};
  for (const Overrides& packing :
       {Overrides{}, Overrides{"dataset.packed_sequence_size=48"},
        Overrides{"dataset.packed_sequence_size=48", "dataset.packing_algorithm=sequential",
                  "dataset.packing_split=true", "model.seq_length=48"}}) {
    const Overrides run = tiny_run() + kDropout + rows + packing;
    const RunOutcome whole = train_run(run);
    TemporaryFolder folder;
    const Overrides saved = run + Overrides{"checkpoint.save=" + folder.path().string()};
    ASSERT_EQ(train_run(saved + Overrides{"train.exit_interval=7"}).state.step, 7);
    const RunOutcome resumed = train_run(saved);
    EXPECT_EQ(resumed.state, whole.state);
    EXPECT_EQ(resumed.tensors, whole.tensors);
  }
}

TEST(Resume, TheLossScaleMovesInTheRunsAbove) {
  const RunOutcome run = train_run(tiny_run() + kScaler);
  EXPECT_GT(run.state.skipped, 0);
  EXPECT_EQ(run.state.updates, run.state.step - run.state.skipped);
  EXPECT_EQ(run.state.schedule_samples, 4 * run.state.updates);
  EXPECT_EQ(run.state.consumed_samples, 4 * run.state.step);
  EXPECT_LT(run.state.scaler.scale, 1073741824.0);
}

// Recomputation does not affect checkpoints and changes no bit.
TEST(Resume, WithOtherActivationsRecomputed) {
  const Overrides run = tiny_run() + kDropout + Overrides{"mixed_precision=bf16_mixed"};
  const Overrides full{"model.recompute_granularity=full", "model.recompute_method=block",
                       "model.recompute_num_layers=1"},
      selective{"model.recompute_granularity=selective",
                "model.recompute_modules=[core_attn, layernorm, mlp]"};
  const RunOutcome whole = train_run(run);
  TemporaryFolder folder;
  const Overrides saved = run + Overrides{"checkpoint.save=" + folder.path().string()};
  train_run(saved + full + Overrides{"train.exit_interval=10"});
  const RunOutcome resumed = train_run(saved + selective);
  EXPECT_EQ(resumed.state, whole.state);
  for (const auto& [name, bytes] : whole.tensors)
    EXPECT_TRUE(resumed.tensors.at(name) == bytes) << name;
}

TEST(Resume, FromAStepByName) {
  TemporaryFolder folder;
  const Overrides run = tiny_run() + Overrides{"checkpoint.save=" + folder.path().string(),
                                               "checkpoint.save_interval=4"};
  const RunOutcome whole = train_run(run);
  EXPECT_EQ(train_run(run + Overrides{"checkpoint.ckpt_step=8"}), whole);
}

TEST(Resume, WithoutMomentsTheyStartAnew) {
  TemporaryFolder folder;
  const Overrides run = tiny_run() + Overrides{"checkpoint.save=" + folder.path().string(),
                                               "checkpoint.save_optim=false"};
  train_run(run + Overrides{"train.exit_interval=10"});
  EXPECT_THROW(train_run(run), IoError);
  const RunOutcome resumed = train_run(run + Overrides{"checkpoint.load_optim=false"});
  EXPECT_EQ(resumed.state.step, 20);
  EXPECT_EQ(resumed.state.updates, 10);
  EXPECT_EQ(resumed.state.consumed_samples, 80);
  EXPECT_NE(resumed.tensors, train_run(tiny_run()).tensors);
}

TEST(Resume, AnotherSeedIsRefusedUnlessWanted) {
  TemporaryFolder folder;
  const Overrides run =
      tiny_run() + kDropout + Overrides{"checkpoint.save=" + folder.path().string()};
  train_run(run + Overrides{"train.exit_interval=10"});
  const Overrides other = run + Overrides{"rng.seed=7"};
  EXPECT_THROW(train_run(other), ConfigError);
  EXPECT_EQ(train_run(other + Overrides{"checkpoint.load_rng=false"}).state.step, 20);
}

TEST(Resume, ExitAtTheLastStepIsTheEndOfTheRun) {
  TemporaryFolder folder;
  train_run(tiny_run() + Overrides{"checkpoint.save=" + folder.path().string(),
                                   "checkpoint.save_interval=0", "train.exit_interval=20"});
  EXPECT_EQ(last_line(folder / "metrics.jsonl").find("stopped"), std::string::npos);
}

}  // namespace
}  // namespace viaduct
