#include "optim/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/error.h"

namespace viaduct {
namespace {

constexpr int64_t kBatch = 8;

/// 10 warm-up and 110 decay iterations of 8 samples, 1.0 → 0.1: numbers that are easy to check by
/// hand.
LearningRateSettings settings(DecayStyle style) {
  LearningRateSettings s;
  s.style = style;
  s.maximum_rate = 1.0, s.minimum_rate = 0.1;
  s.warmup_iterations = 10, s.decay_iterations = 110, s.anneal_iterations = 40;
  return s;
}

double rate_at(const LearningRateSettings& s, int64_t iteration) {
  return learning_rate_schedule(s, kBatch).rate(iteration * kBatch);
}

TEST(LearningRate, WarmsUpInAStraightLineFromTheInitialRate) {
  auto s = settings(DecayStyle::cosine);
  EXPECT_EQ(rate_at(s, 0), 0.0);
  EXPECT_DOUBLE_EQ(rate_at(s, 5), 0.5);
  EXPECT_EQ(rate_at(s, 10), 1.0);
  s.initial_rate = 0.2;
  EXPECT_DOUBLE_EQ(rate_at(s, 0), 0.2);
  EXPECT_DOUBLE_EQ(rate_at(s, 5), 0.6);
}

TEST(LearningRate, CountsSamplesNotIterations) {
  const auto schedule = learning_rate_schedule(settings(DecayStyle::linear), kBatch);
  EXPECT_DOUBLE_EQ(schedule.rate(1), 1.0 / 80);  // within the first iteration's batch
  EXPECT_DOUBLE_EQ(schedule.rate(44), 44.0 / 80);
}

TEST(LearningRate, DecayStyles) {
  // Half of the decay: iteration 60 of 10…110.
  EXPECT_DOUBLE_EQ(rate_at(settings(DecayStyle::linear), 60), 0.55);
  EXPECT_DOUBLE_EQ(rate_at(settings(DecayStyle::linear), 85), 0.325);
  EXPECT_DOUBLE_EQ(rate_at(settings(DecayStyle::cosine), 60), 0.55);
  // A quarter: cos(π/4) = 0.70710678…
  EXPECT_NEAR(rate_at(settings(DecayStyle::cosine), 35), 0.1 + 0.9 * 0.8535533905932737, 1e-15);
  EXPECT_DOUBLE_EQ(rate_at(settings(DecayStyle::constant), 60), 1.0);
  // √(10 / 40) and √(10 / 90).
  EXPECT_DOUBLE_EQ(rate_at(settings(DecayStyle::inverse_square_root), 40), 0.5);
  EXPECT_DOUBLE_EQ(rate_at(settings(DecayStyle::inverse_square_root), 90), 1.0 / 3);
}

TEST(LearningRate, EndsAtTheMinimumAndStaysThereExceptConstant) {
  for (auto style : {DecayStyle::linear, DecayStyle::cosine, DecayStyle::warmup_stable_decay}) {
    EXPECT_NEAR(rate_at(settings(style), 110), 0.1, 1e-15);
    EXPECT_EQ(rate_at(settings(style), 111), 0.1);
    EXPECT_EQ(rate_at(settings(style), 100000), 0.1);
  }
  EXPECT_EQ(rate_at(settings(DecayStyle::inverse_square_root), 111), 0.1);
  EXPECT_EQ(rate_at(settings(DecayStyle::constant), 100000), 1.0);
  auto floor = settings(DecayStyle::inverse_square_root);
  floor.minimum_rate = 0.6;
  EXPECT_EQ(rate_at(floor, 100), 0.6);
}

TEST(LearningRate, WarmupStableDecay) {
  auto s = settings(DecayStyle::warmup_stable_decay);  // stable until iteration 70, anneal over 40
  EXPECT_EQ(rate_at(s, 11), 1.0);
  EXPECT_EQ(rate_at(s, 70), 1.0);
  s.anneal = AnnealStyle::linear;
  EXPECT_DOUBLE_EQ(rate_at(s, 80), 0.1 + 0.9 * 0.75);
  s.anneal = AnnealStyle::cosine;
  EXPECT_DOUBLE_EQ(rate_at(s, 90), 0.1 + 0.9 * 0.5);
  s.anneal = AnnealStyle::exponential;
  EXPECT_DOUBLE_EQ(rate_at(s, 90), 0.1 + 0.9 * (2 / std::sqrt(2.0) - 1));
  s.anneal = AnnealStyle::minus_sqrt;
  EXPECT_DOUBLE_EQ(rate_at(s, 80), 0.1 + 0.9 * 0.5);
}

TEST(LearningRate, WarmupFractionIsOfTheDecay) {
  auto s = settings(DecayStyle::linear);
  s.warmup_iterations = 0;
  s.warmup_fraction = 0.5;
  EXPECT_DOUBLE_EQ(rate_at(s, 11), 0.2);
  EXPECT_DOUBLE_EQ(rate_at(s, 55), 1.0);
  EXPECT_DOUBLE_EQ(rate_at(s, 110), 0.1);
}

TEST(LearningRate, NoWarmupStartsAtTheMaximum) {
  auto s = settings(DecayStyle::cosine);
  s.warmup_iterations = 0;
  EXPECT_EQ(rate_at(s, 0), 1.0);
  s.style = DecayStyle::constant;
  s.decay_iterations = 0;  // nothing to decay over
  EXPECT_EQ(rate_at(s, 0), 1.0);
}

TEST(LearningRate, ReportsEveryProblem) {
  auto s = settings(DecayStyle::warmup_stable_decay);
  s.minimum_rate = 2;
  s.warmup_iterations = 110;
  s.anneal_iterations = 111;
  try {
    learning_rate_schedule(s, 0);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.problems().size(), 4u);
  }
  s = settings(DecayStyle::linear);
  s.warmup_fraction = 0.1;
  EXPECT_THROW(learning_rate_schedule(s, kBatch), ConfigError);  // both warm-ups
  s.warmup_iterations = 0;
  s.warmup_fraction = NAN;
  EXPECT_THROW(learning_rate_schedule(s, kBatch), ConfigError);
}

TEST(WeightDecay, GrowsAndStays) {
  const auto linear = weight_decay_schedule(DecayGrowth::linear, 0.1, 0.5, 100, kBatch);
  EXPECT_DOUBLE_EQ(linear.decay(0), 0.1);
  EXPECT_DOUBLE_EQ(linear.decay(25 * kBatch), 0.2);
  EXPECT_DOUBLE_EQ(linear.decay(100 * kBatch), 0.5);
  EXPECT_DOUBLE_EQ(linear.decay(1000 * kBatch), 0.5);
  const auto cosine = weight_decay_schedule(DecayGrowth::cosine, 0.0, 1.0, 100, kBatch);
  EXPECT_NEAR(cosine.decay(0), 0.0, 1e-15);
  EXPECT_NEAR(cosine.decay(25 * kBatch), 0.1464466094067262, 1e-12);  // (1 − cos π/4) / 2
  EXPECT_DOUBLE_EQ(weight_decay_schedule(DecayGrowth::constant, 0.1, 0.1, 0, kBatch).decay(0), 0.1);
  EXPECT_THROW(weight_decay_schedule(DecayGrowth::constant, 0.1, 0.2, 100, kBatch), ConfigError);
  EXPECT_THROW(weight_decay_schedule(DecayGrowth::linear, 0.3, 0.2, 0, kBatch), ConfigError);
}

}  // namespace
}  // namespace viaduct
