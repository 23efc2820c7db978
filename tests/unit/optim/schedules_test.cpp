#include "optim/schedules.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace viaduct {
namespace {

struct Configuration {
  OptimizerConfig optimizer;
  SchedulerConfig scheduler;

  Schedules resolved(int64_t train_iters, int64_t batch) {
    optimizer.resolve();
    scheduler.resolve(train_iters, optimizer.weight_decay);
    return schedules(optimizer, scheduler, train_iters, batch);
  }
};

TEST(Schedules, DefaultsAreTheRecipe) {
  const Schedules s = Configuration().resolved(10000, 32);
  EXPECT_EQ(s.learning_rate.rate(0), 0);
  EXPECT_DOUBLE_EQ(s.learning_rate.rate(250 * 32), 1.5e-4);  // 500 steps of warm-up
  EXPECT_DOUBLE_EQ(s.learning_rate.rate(500 * 32), 3e-4);
  EXPECT_DOUBLE_EQ(s.learning_rate.rate(5250 * 32), 1.65e-4);  // half of the cosine
  EXPECT_DOUBLE_EQ(s.learning_rate.rate(10000 * 32), 3e-5);
  EXPECT_DOUBLE_EQ(s.weight_decay.decay(0), 0.1);
  EXPECT_DOUBLE_EQ(s.weight_decay.decay(10000 * 32), 0.1);
}

TEST(Schedules, EveryFieldArrives) {
  Configuration c;
  c.optimizer.lr = 1, c.optimizer.min_lr = 0.5;
  c.scheduler.lr_decay_style = DecayStyle::warmup_stable_decay,
  c.scheduler.lr_wsd_decay_style = AnnealStyle::linear;
  c.scheduler.lr_warmup_iters = 10, c.scheduler.lr_warmup_init = 0.25;
  c.scheduler.lr_decay_iters = 80, c.scheduler.lr_wsd_decay_iters = 20;
  c.scheduler.start_weight_decay = 0.0, c.scheduler.end_weight_decay = 1.0;
  c.scheduler.weight_decay_incr_style = DecayGrowth::linear;
  const Schedules s = c.resolved(100, 4);
  EXPECT_DOUBLE_EQ(s.learning_rate.rate(0), 0.25);
  EXPECT_DOUBLE_EQ(s.learning_rate.rate(5 * 4), 0.625);
  EXPECT_DOUBLE_EQ(s.learning_rate.rate(60 * 4), 1);
  EXPECT_DOUBLE_EQ(s.learning_rate.rate(70 * 4), 0.75);
  EXPECT_DOUBLE_EQ(s.learning_rate.rate(90 * 4), 0.5);
  EXPECT_DOUBLE_EQ(s.weight_decay.decay(50 * 4), 0.5);  // over train_iters
}

TEST(Schedules, WarmupFraction) {
  Configuration c;
  c.scheduler.lr_warmup_fraction = 0.5;
  EXPECT_DOUBLE_EQ(c.resolved(100, 1).learning_rate.rate(25), 1.5e-4);
}

TEST(Schedules, RowsInPlaceOfSteps) {
  Configuration c;
  c.optimizer.lr = 1, c.optimizer.min_lr = 0;
  c.scheduler.lr_decay_style = DecayStyle::linear;
  c.scheduler.lr_warmup_samples = 30, c.scheduler.lr_decay_samples = 130;
  const Schedules s = c.resolved(1000, 4);
  EXPECT_DOUBLE_EQ(s.learning_rate.rate(15), 0.5);
  EXPECT_DOUBLE_EQ(s.learning_rate.rate(30), 1);
  EXPECT_DOUBLE_EQ(s.learning_rate.rate(80), 0.5);
  EXPECT_DOUBLE_EQ(s.learning_rate.rate(130), 0);
  c.scheduler.lr_warmup_samples = 130;
  EXPECT_THROW(c.resolved(1000, 4), ConfigError);
}

TEST(Schedules, StepsAreTheRowsOfARamp) {
  // 2 2 2 2 4 4 6 6 8 8 8 …
  const BatchSchedule ramp({8, BatchRamp{2, 2, 24}});
  Configuration c;
  c.optimizer.resolve();
  c.optimizer.lr = 1, c.optimizer.min_lr = 0;
  c.scheduler.lr_decay_style = DecayStyle::linear;
  c.scheduler.lr_warmup_iters = 5;
  c.scheduler.start_weight_decay = 0.0, c.scheduler.end_weight_decay = 1.0;
  c.scheduler.weight_decay_incr_style = DecayGrowth::linear;
  c.scheduler.resolve(10, 0.1);
  const Schedules s = schedules(c.optimizer, c.scheduler, 10, ramp);
  EXPECT_DOUBLE_EQ(s.learning_rate.rate(6), 0.5) << "warm-up: 5 steps are 12 rows";
  EXPECT_DOUBLE_EQ(s.learning_rate.rate(12), 1);
  EXPECT_DOUBLE_EQ(s.learning_rate.rate(28), 0.5) << "10 steps are 44 rows";
  EXPECT_DOUBLE_EQ(s.learning_rate.rate(44), 0);
  EXPECT_DOUBLE_EQ(s.weight_decay.decay(22), 0.5);
}

TEST(Schedules, LossScaler) {
  PrecisionConfig precision;
  EXPECT_EQ(LossScaler(loss_scaler_settings(precision)).initial_state().scale, 0x1p32);
  precision.loss_scale = 128;
  EXPECT_EQ(LossScaler(loss_scaler_settings(precision)).initial_state().scale, 128);
  precision.loss_scale.reset();
  precision.initial_loss_scale = 8, precision.min_loss_scale = 2, precision.loss_scale_window = 1;
  precision.hysteresis = 3;
  const LossScaler scaler(loss_scaler_settings(precision));
  auto state = scaler.initial_state();
  EXPECT_EQ(scaler.next(state, false).scale, 16);
  for (int i = 0; i < 3; ++i) state = scaler.next(state, true);
  EXPECT_EQ(state.scale, 4);
  for (int i = 0; i < 3; ++i) state = scaler.next(state, true);
  EXPECT_EQ(state.scale, 2);
}

}  // namespace
}  // namespace viaduct
