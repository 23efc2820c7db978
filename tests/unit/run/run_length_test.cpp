// Lengths in rows and growing batches: resolved values and configuration errors.

#include "run/run_length.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "engine/dry_run.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

Overrides without_length() {
  Overrides run = tiny_run();
  std::erase(run, "train.train_iters=20");
  return run;
}

TEST(RunLength, StepsAndDecayFollowFromRows) {
  const RunConfig config =
      setup_of(without_length() + Overrides{"train.train_samples=1003"}).config;
  EXPECT_EQ(config.train.train_iters, 250) << "a remainder of 3 rows is not a step";
  EXPECT_EQ(config.scheduler.lr_decay_samples, 1003);
  EXPECT_FALSE(config.scheduler.lr_decay_iters);
  EXPECT_EQ(training_rows(config), 1003);
}

TEST(RunLength, AResolvedConfigurationIsReadBackAsItself) {
  const RunConfig config =
      setup_of(without_length() +
               Overrides{"train.train_samples=1000", "train.rampup_batch_size=[2,2,100]"})
          .config;
  TemporaryFolder folder;
  write_file_atomically(folder / "config.yaml", to_yaml(config));
  EXPECT_EQ(to_yaml(prepare_run(load_run_config(folder / "config.yaml", {})).config),
            to_yaml(config));
}

TEST(RunLength, TheDryRunIsThatOfTheFullBatch) {
  const Overrides full = tiny_run() + Overrides{"train.global_batch_size=8"};
  const DryRun constant = dry_run(setup_of(full));
  const DryRun ramp = dry_run(setup_of(full + Overrides{"train.rampup_batch_size=[2,2,24]"}));
  EXPECT_EQ(ramp.peak.bytes, constant.peak.bytes);
  EXPECT_EQ(ramp.launches, constant.launches);
  EXPECT_EQ(ramp.model_flops, constant.model_flops);
}

TEST(RunLength, WhatDoesNotFitIsSaid) {
  const auto expect = [](const Overrides& overrides, const auto& what) {
    EXPECT_THAT([&] { setup_of(tiny_run() + overrides); }, ThrowsMessage<ConfigError>(what));
  };
  expect({"train.train_samples=1000"},
         AllOf(HasSubstr("1000 rows make 250 steps"), HasSubstr("train.train_iters = 20")));
  expect({"train.train_samples=3"}, HasSubstr("3 rows, less than the 4 of the first step"));
  expect({"train.train_samples=0"}, HasSubstr("train.train_samples"));
  expect({"train.rampup_batch_size=[2,2]"}, HasSubstr("2 numbers, expected [start, increment"));
  expect({"train.rampup_batch_size=[1,1,24]"},
         AllOf(HasSubstr("start 1 and increment 1"), HasSubstr("decrease_batch_size_if_needed")));
  expect({"train.rampup_batch_size=[6,2,24]"}, HasSubstr("starts with 6 rows"));
  expect({"train.global_batch_size=5"}, HasSubstr("nearest"));
  expect({"train.global_batch_size=1", "train.decrease_batch_size_if_needed=true"},
         HasSubstr("rounded down"));
  expect({"scheduler.lr_decay_samples=10", "scheduler.lr_decay_iters=5"}, HasSubstr("both given"));
  expect({"scheduler.lr_warmup_samples=10", "scheduler.lr_warmup_fraction=0.5"},
         HasSubstr("only one of them may set the warm-up"));
  expect({"scheduler.lr_warmup_samples=10", "scheduler.lr_decay_samples=10"},
         HasSubstr("10 is not below the 10 rows of the decay"));
  expect({"scheduler.lr_warmup_samples=80"}, HasSubstr("80 is not below the 80 rows"));
  expect({"scheduler.lr_warmup_samples=80"}, HasSubstr("such as scheduler.lr_warmup_samples=8"));
  expect({"scheduler.lr_warmup_iters=30"},
         AllOf(HasSubstr("30 is not below train.train_iters = 20"),
               HasSubstr("such as scheduler.lr_warmup_iters=2, or train.train_iters=31 or more")));
  expect({"scheduler.lr_warmup_iters=15", "scheduler.lr_decay_iters=10"},
         HasSubstr("scheduler.lr_warmup_iters=1, or scheduler.lr_decay_iters=16 or more"));
  for (const char* named : {"scheduler.lr_warmup_iters=2", "train.train_iters=31"})
    EXPECT_NO_THROW(setup_of(tiny_run() + Overrides{"scheduler.lr_warmup_iters=30", named}));
  expect({"train.iterations_to_skip=[0]"}, HasSubstr("train.iterations_to_skip"));
}

TEST(RunLength, EachSizeOfTheRampFitsTheGroupsOfVirtualStages) {
  const Overrides stages{"dist.ranks=2",
                         "model.num_layers=4",
                         "model.pipeline_model_parallel_size=2",
                         "model.virtual_pipeline_model_parallel_size=2",
                         "train.micro_batch_size=1",
                         "train.global_batch_size=8"};
  EXPECT_NO_THROW(setup_of(tiny_run() + stages + Overrides{"train.rampup_batch_size=[2,2,24]"}));
  EXPECT_THAT(
      [&] { setup_of(tiny_run() + stages + Overrides{"train.rampup_batch_size=[2,1,24]"}); },
      ThrowsMessage<ConfigError>(HasSubstr("cut the 3 micro-batches")));
}

}  // namespace
}  // namespace viaduct
