// Runs with other formats of optimizer state and other optimizers: they resume bit by bit from
// their checkpoints, and checkpoints convert between formats.

#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::ThrowsMessage;

const Overrides kAware{"mixed_precision=bf16_mixed",
                       "optimizer.use_precision_aware_optimizer=true"};
const Overrides kNarrow =
    kAware + Overrides{"ddp.grad_reduce_in_fp32=false", "optimizer.main_grads_dtype=bf16",
                       "optimizer.exp_avg_dtype=fp8", "optimizer.exp_avg_sq_dtype=fp8"};
const Overrides kScaled =
    kAware + Overrides{"optimizer.main_params_dtype=fp16", "optimizer.exp_avg_dtype=bf16",
                       "optimizer.exp_avg_sq_dtype=fp16"};

Overrides run_of(const Overrides& settings) {
  return tiny_run() + Overrides{"train.train_iters=8", "logger.log_throughput=false"} + settings;
}

void expect_resumed(const Overrides& settings) {
  const RunOutcome whole = train_run(run_of(settings));
  TemporaryFolder folder;
  const Overrides saved = run_of(settings) + Overrides{"checkpoint.save=" + folder.path().string()};
  const RunOutcome half = train_run(saved + Overrides{"train.exit_interval=4"});
  ASSERT_EQ(half.state.step, 4);
  const RunOutcome resumed = train_run(saved);
  EXPECT_EQ(resumed.state, whole.state);
  for (const auto& [name, bytes] : whole.tensors) {
    EXPECT_TRUE(resumed.tensors.at(name) == bytes) << name;
    EXPECT_FALSE(half.tensors.at(name) == bytes) << name << " does not move";
  }
}

TEST(OptimizerState, NarrowStateGoesOnBitByBit) {
  expect_resumed(kNarrow);
}
TEST(OptimizerState, ScaledMastersGoOnBitByBit) {
  expect_resumed(kScaled);
}
TEST(OptimizerState, SgdGoesOnBitByBit) {
  expect_resumed({"optimizer.optimizer=sgd"});
}
TEST(OptimizerState, LionGoesOnBitByBit) {
  expect_resumed({"optimizer.optimizer=lion", "optimizer.lr=1e-3"});
}

TEST(OptimizerState, MuonGoesOnBitByBit) {
  expect_resumed({"optimizer.optimizer=muon"});
}

TEST(OptimizerState, AdafactorGoesOnBitByBit) {
  expect_resumed({"optimizer.optimizer=adafactor"});
  expect_resumed({"optimizer.optimizer=adafactor", "mixed_precision=bf16_mixed"});
}

TEST(OptimizerState, CheckpointsMoveBetweenFormats) {
  TemporaryFolder narrow;
  const Overrides stop{"train.exit_interval=4"};
  const auto saved = [&](const Overrides& settings) {
    return train_run(run_of(settings) + Overrides{"checkpoint.save=" + narrow.path().string()} +
                     stop);
  };
  const RunOutcome before = saved(kNarrow);
  // Values of narrow formats are also FP32 values.
  const Overrides load{"checkpoint.load=" + narrow.path().string(), "train.train_iters=4"};
  const RunOutcome wide = train_run(run_of({"mixed_precision=bf16_mixed"}) + load);
  EXPECT_EQ(wide.tensors, before.tensors);
  // Back again: an FP8 value gets the same code.
  const RunOutcome again = train_run(run_of(kNarrow) + load);
  EXPECT_EQ(again.tensors, before.tensors);
  // Then into formats that hold less.
  const RunOutcome scaled = train_run(run_of(kScaled) + load);
  TrainState expected = before.state;
  expected.data_rows = 16;  // 4 steps of 4 rows
  EXPECT_EQ(scaled.state, expected);
  EXPECT_NE(scaled.tensors, before.tensors);
}

TEST(OptimizerState, AnotherOptimizerIsRefused) {
  TemporaryFolder folder;
  const Overrides saved{"checkpoint.save=" + folder.path().string()};
  train_run(run_of({}) + saved + Overrides{"train.exit_interval=4"});
  EXPECT_THAT([&] { train_run(run_of({"optimizer.optimizer=sgd"}) + saved); },
              ThrowsMessage<ConfigError>(HasSubstr("optimizer.optimizer")));
}

/// ‖a − b‖ / ‖b − start‖ over all weights: the difference relative to b's movement.
double distance(const RunOutcome& a, const RunOutcome& b, const RunOutcome& start) {
  double difference = 0, movement = 0;
  for (const auto& [name, bytes] : b.tensors) {
    if (name.starts_with("optimizer.")) continue;
    const auto floats = [&](const RunOutcome& run) {
      return reinterpret_cast<const float*>(run.tensors.at(name).data());
    };
    for (size_t i = 0; i < bytes.size() / sizeof(float); ++i) {
      difference += std::pow(floats(a)[i] - floats(b)[i], 2);
      movement += std::pow(floats(b)[i] - floats(start)[i], 2);
    }
  }
  return std::sqrt(difference / movement);
}

// A wrongly stored moment or master would move weights elsewhere.
TEST(OptimizerState, NarrowStateMovesWeightsAsFp32Does) {
  const Overrides short_run{"train.train_iters=4", "optimizer.lr=1e-3",
                            "scheduler.lr_decay_style=constant"};
  const Overrides wide{"mixed_precision=bf16_mixed"};
  const RunOutcome expected = train_run(run_of(wide) + short_run),
                   start = train_run(run_of(wide) + short_run + Overrides{"optimizer.lr=0"});
  const auto of = [&](const Overrides& settings) {
    return distance(train_run(run_of(settings) + short_run), expected, start);
  };
  EXPECT_EQ(of(wide), 0);
  const double remainders = of(kAware), narrow = of(kNarrow), scaled = of(kScaled);
  EXPECT_LT(remainders, 0.05);  // only roundings of ties
  EXPECT_GT(narrow, 0);
  EXPECT_LT(narrow, 0.3);  // FP8 has 4 significant bits
  EXPECT_GT(scaled, 0);
  EXPECT_LT(scaled, 0.1);
}

}  // namespace
}  // namespace viaduct
