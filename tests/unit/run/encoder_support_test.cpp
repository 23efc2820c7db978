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
           {{"dist.ranks=2", "model.context_parallel_size=2"}, "model.cp_comm_type: p2p"},
           {{"mixed_precision=bf16_with_mxfp8_mixed"}, "mixed_precision.recipe"},
           {{"peft.scheme=lora", "peft.base_format=nf4"}, "peft.base_format: nf4"},
           {{"peft.scheme=lora", "peft.dropout=0.1", "dist.ranks=2",
             "model.cp_comm_type=all_gather", "model.context_parallel_size=2"},
            "peft.dropout: 0.1"},
           {{"dataset.packed_sequence_size=32"}, "dataset.packed_sequence_size: 32"},
           {{"validation.tasks=/no/such"}, "validation.tasks: /no/such"}}) {
    EXPECT_THAT(refusal(overrides), HasSubstr(field));
  }
  EXPECT_THAT(refusal({"dist.ranks=2", "model.context_parallel_size=2"}),
              HasSubstr("is not implemented with model.encoder_num_layers (positions are a bias of "
                        "the scores); expected all_gather"));
}

TEST(EncoderSupport, LayersToOffloadAreThoseOfBothHalves) {
  const auto offloads = [](const char* number) {
    return Overrides{"model.cpu_offloading=true",
                     std::string("model.cpu_offloading_num_layers=") + number};
  };
  EXPECT_EQ(refusal(offloads("4")), "no error");
  EXPECT_THAT(refusal(offloads("5")),
              HasSubstr("5 is more than encoder_num_layers + num_layers = 4; expected 0 to 4"));
}

TEST(EncoderSupport, ContextRanksHaveWholeRowsOfTheEncoder) {
  const Overrides context{"dist.ranks=4",
                          "model.tensor_model_parallel_size=2",
                          "model.context_parallel_size=2",
                          "model.cp_comm_type=all_gather",
                          "train.micro_batch_size=3",
                          "train.global_batch_size=3"};
  EXPECT_TRUE(setup_of(tiny_run("t5") + context + Overrides{"model.encoder_seq_length=5"})
                  .config.parallel.sequence_parallel.value())
      << "two rows of five tokens on each context rank";
  EXPECT_THAT(refusal(context + Overrides{"model.encoder_seq_length=5", "train.micro_batch_size=1",
                                          "model.sequence_parallel=true"}),
              HasSubstr("encoder_seq_length · rows of a context rank = 5 · 1"));
}

TEST(EncoderSupport, FieldsOfTextsHaveNoEffectWithoutThem) {
  const auto notes = [](const Overrides& overrides) {
    std::string all;
    for (const std::string& note : setup_of(tiny_run("t5") + overrides).notes) all += note + "\n";
    return all;
  };
  EXPECT_THAT(notes({"dataset.masked_lm_prob=0.2"}),
              AllOf(HasSubstr("dataset.masking_probability"), HasSubstr("dataset.mock = true")));
}

TEST(EncoderSupport, RowsOfTheEncoderAreCutOverTensorRanksWhereTheyDivide) {
  const Overrides tensor{"dist.ranks=2", "model.tensor_model_parallel_size=2",
                         "train.micro_batch_size=1"};
  EXPECT_TRUE(setup_of(tiny_run("t5") + tensor).config.parallel.sequence_parallel.value());
  const Overrides odd = tensor + Overrides{"model.encoder_seq_length=7"};
  EXPECT_FALSE(setup_of(tiny_run("t5") + odd).config.parallel.sequence_parallel.value());
  EXPECT_THAT(
      refusal(odd + Overrides{"model.sequence_parallel=true"}),
      AllOf(HasSubstr("the 7 tokens of the encoder's rows"), HasSubstr("nearest: 6 or 8 tokens")));
}

}  // namespace
}  // namespace viaduct
