// A subcommand refuses overrides without effect.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/command.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(OverrideScope, WhatASubcommandDoesNotReadIsRefused) {
  const std::string model = test::test_data("golden/gpt2/model").string();
  const struct {
    std::string command, expected;
  } cases[] = {
      {"generate --model " + model + " --prompt a rng.seed=2",
       "viaduct generate does not read rng.seed"},
      {"eval --model " + model + " --data a ddp.overlap_grad_reduce=true",
       "viaduct eval does not read ddp.overlap_grad_reduce"},
      {"generate --model " + model + " --prompt a model.num_layers=7",
       "viaduct generate does not read model.num_layers"},
      {"generate --model " + model + " --prompt a model.encoder_pipeline_model_parallel_size=1",
       "model.encoder_pipeline_model_parallel_size: answers are made token by token, for which the "
       "encoder is on the decoder's first stage"},
      {"generate --model " + model + " --prompt a TransformerConfig.attention_backend=unfused",
       "viaduct generate does not read model.attention_backend"},
      {"convert --from " + model + " --to /nowhere/x mixed_precision=bf16_mixed",
       "viaduct convert does not read mixed_precision.recipe"},
      {"convert --from " + model + " --to /nowhere/x model.num_layers=9",
       "viaduct convert does not read model.num_layers"},
      {"convert --from " + model + " --to /nowhere/x model.tensor_model_parallel_size=1",
       "needs dist.ranks above 1"},
      {"bench step --config configs/bench/llama_10m.yaml logger.flops=full",
       "viaduct bench step does not read logger.flops"},
      {"probe --model " + model + " --batch /nowhere/b --out /tmp/o dataset.mock=true",
       "viaduct probe does not read dataset.mock"},
      {"data samples optimizer.lr=1 --split train --num-samples 1",
       "viaduct data samples does not read optimizer.lr"},
      {"data samples dataset.mock=true --indices --split train --num-samples 1",
       "printed only with --json"},
      {"train", "expected a configuration file, overrides section.field=value, or both"},
  };
  for (const auto& [command, expected] : cases) {
    const auto result = test::run_viaduct(command);
    EXPECT_EQ(result.status, 2) << command << "\n" << result.err;
    EXPECT_THAT(result.err, HasSubstr(expected)) << command;
  }
}

TEST(OverrideScope, HelpListsWhatIsRead) {
  EXPECT_THAT(test::run_viaduct("probe --help").out,
              AllOf(HasSubstr("mixed_precision"), HasSubstr("train.micro_batch_size")));
  EXPECT_THAT(test::run_viaduct("train --help").out, testing::Not(HasSubstr("REQUIRED")));
}

}  // namespace
}  // namespace viaduct
