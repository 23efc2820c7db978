// What is not implemented with an encoder is refused by name, and its rows are pairs.

#include "run/encoder_support.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "support/training.h"

namespace viaduct {
namespace {

using test::Overrides;
using test::operator+;
using test::setup_of;
using test::tiny_run;
using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const Overrides& overrides) {
  try {
    setup_of(tiny_run("t5") + overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(EncoderSupport, RowsArePairsWithTheModelsTokens) {
  const RunSetup setup = setup_of(tiny_run("t5") + Overrides{"model.encoder_seq_length=24"});
  ASSERT_TRUE(setup.config.dataset.pairs);
  EXPECT_EQ(setup.config.dataset.pairs->encoder_length, 24);
  EXPECT_EQ(setup.model.encoder.layers, 2);
  EXPECT_FALSE(setup_of(tiny_run()).config.dataset.pairs);
}

TEST(EncoderSupport, WhatIsNotImplementedIsRefusedByName) {
  for (const auto& [overrides, field] : std::vector<std::pair<Overrides, std::string>>{
           {{"dist.ranks=2", "model.pipeline_model_parallel_size=2"},
            "model.pipeline_model_parallel_size: 2"},
           {{"dist.ranks=2", "model.context_parallel_size=2"}, "model.context_parallel_size: 2"},
           {{"model.recompute_granularity=selective"}, "model.recompute_granularity: selective"},
           {{"model.cpu_offloading=true", "model.cpu_offloading_num_layers=1"},
            "model.cpu_offloading: true"},
           {{"mixed_precision=bf16_with_mxfp8_mixed"}, "mixed_precision.recipe"},
           {{"peft.scheme=lora"}, "peft.scheme: lora"},
           {{"dataset.packed_sequence_size=32"}, "dataset.packed_sequence_size: 32"},
           {{"dist.device=sim"}, "dist.device"}}) {
    EXPECT_THAT(refusal(overrides), HasSubstr(field));
  }
  EXPECT_THAT(refusal({"dist.ranks=2", "model.context_parallel_size=2"}),
              HasSubstr("is not implemented with model.encoder_num_layers; expected 1"));
}

TEST(EncoderSupport, RowsOfTheEncoderAreCutOverTensorRanksWhereTheyDivide) {
  const Overrides tensor{"dist.ranks=2", "model.tensor_model_parallel_size=2",
                         "train.micro_batch_size=1"};
  EXPECT_TRUE(setup_of(tiny_run("t5") + tensor).config.parallel.sequence_parallel.value());
  const Overrides odd = tensor + Overrides{"model.encoder_seq_length=7"};
  EXPECT_FALSE(setup_of(tiny_run("t5") + odd).config.parallel.sequence_parallel.value());
  EXPECT_THAT(refusal(odd + Overrides{"model.sequence_parallel=true"}),
              AllOf(HasSubstr("the 7 tokens of the encoder's rows"), HasSubstr("nearest: 8")));
}

}  // namespace
}  // namespace viaduct
