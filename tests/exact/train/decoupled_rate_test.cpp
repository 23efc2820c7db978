// optimizer.decoupled_lr: the token table and the head have their own learning rate, all others lr.

#include <gmock/gmock.h>

#include "base/error.h"
#include "optim/schedules.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::ThrowsMessage;

bool is_of_vocabulary(const std::string& name) {
  return name.find("embed_tokens") != std::string::npos || name.find("wte") != std::string::npos ||
         name.find("lm_head") != std::string::npos;
}

/// Only weights are compared: moments depend on the gradients, not on the rate.
std::map<std::string, std::string> weights(const RunOutcome& run) {
  std::map<std::string, std::string> kept;
  for (const auto& [name, bytes] : run.tensors) {
    if (name.starts_with("model.") || name.starts_with("lm_head") || name.starts_with("w") ||
        name.starts_with("h.") || name.starts_with("transformer.") || name.starts_with("ln_f"))
      kept[name] = bytes;
  }
  return kept;
}

TEST(DecoupledRate, MovesTokenTableAndHeadAlone) {
  for (const char* family : {"llama", "gpt2"}) {
    const Overrides run =
        tiny_run(family) +
        Overrides{"logger.log_throughput=false", "train.train_iters=1", "optimizer.weight_decay=0"};
    const Overrides still{"optimizer.lr=0", "optimizer.min_lr=0"};
    const auto start = weights(train_run(run + still));
    const auto vocabulary = weights(train_run(
        run + still + Overrides{"optimizer.decoupled_lr=1e-2", "optimizer.decoupled_min_lr=1e-3"}));
    const auto others =
        weights(train_run(run + Overrides{"optimizer.lr=1e-2", "optimizer.decoupled_lr=0",
                                          "optimizer.decoupled_min_lr=0"}));
    ASSERT_GT(start.size(), 10u) << family;
    int of_vocabulary = 0;
    for (const auto& [name, bytes] : start) {
      of_vocabulary += is_of_vocabulary(name);
      EXPECT_EQ(vocabulary.at(name) != bytes, is_of_vocabulary(name)) << family << " " << name;
      EXPECT_EQ(others.at(name) != bytes, !is_of_vocabulary(name)) << family << " " << name;
    }
    EXPECT_GE(of_vocabulary, 1) << family;
  }
}

TEST(DecoupledRate, TheSameRateIsTheSameRun) {
  const Overrides run = tiny_run() + Overrides{"logger.log_throughput=false", "train.train_iters=5",
                                               "optimizer.lr=1e-2", "scheduler.lr_warmup_iters=2"};
  EXPECT_EQ(train_run(run), train_run(run + Overrides{"optimizer.decoupled_lr=1e-2"}));
}

TEST(DecoupledRate, FollowsTheScheduleBetweenItsOwnEnds) {
  OptimizerConfig optimizer;
  SchedulerConfig scheduler;
  optimizer.lr = 1, optimizer.min_lr = 0.5;
  optimizer.decoupled_lr = 4, optimizer.decoupled_min_lr = 2;
  scheduler.lr_decay_style = DecayStyle::linear, scheduler.lr_warmup_iters = 10;
  optimizer.resolve();
  scheduler.resolve(110, 0.1);
  Schedules s = schedules(optimizer, scheduler, 110, 2);
  EXPECT_DOUBLE_EQ(s.decoupled_rate.value().rate(10), 2);
  EXPECT_DOUBLE_EQ(s.decoupled_rate->rate(20), 4);
  EXPECT_DOUBLE_EQ(s.decoupled_rate->rate(120), 3);
  EXPECT_DOUBLE_EQ(s.decoupled_rate->rate(220), 2);
  EXPECT_DOUBLE_EQ(s.learning_rate.rate(120), 0.75);
  optimizer.decoupled_min_lr.reset();
  EXPECT_DOUBLE_EQ(schedules(optimizer, scheduler, 110, 2).decoupled_rate->rate(220), 0.5);
  optimizer.decoupled_lr.reset();
  EXPECT_FALSE(schedules(optimizer, scheduler, 110, 2).decoupled_rate);
}

TEST(DecoupledRate, WhatDoesNotFitIsSaid) {
  const auto expect = [](const Overrides& overrides, const char* what) {
    EXPECT_THAT([&] { setup_of(tiny_run() + overrides); },
                ThrowsMessage<ConfigError>(HasSubstr(what)));
  };
  expect({"optimizer.decoupled_min_lr=1e-3"}, "needs decoupled_lr");
  expect({"optimizer.decoupled_lr=1e-3", "optimizer.decoupled_min_lr=1e-2"},
         "is above decoupled_lr");
  expect({"optimizer.decoupled_lr=1e-6"}, "(of min_lr) is above decoupled_lr");
  expect({"optimizer.decoupled_lr=-1"}, "optimizer.decoupled_lr");
}

}  // namespace
}  // namespace viaduct
