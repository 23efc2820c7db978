// T5 over data-parallel ranks, with every way to shard what they hold, over tensor ranks, with and
// without sequence parallelism, over pipeline stages, the encoder on the decoder's first one or on
// its own, and over context ranks, which have whole rows of the encoder: the reference's logits,
// loss and gradients, and ten steps of its trace.

#include <gtest/gtest.h>

#include "support/layout_run.h"
#include "support/moving_run.h"
#include "support/paths.h"
#include "support/training.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;
using test::ModelLayout;
using test::operator+;

std::vector<LayoutCase> layouts() {
  const std::string strategy = "ddp.data_parallel_sharding_strategy=";
  return {layout(1, 1, 1, 1, {"train.micro_batch_size=1"}, "one"),
          layout(1, 1, 1, 2),
          layout(1, 1, 1, 2, {strategy + "optim_grads"}, "gradients"),
          layout(1, 1, 1, 2, {strategy + "optim_grads_params"}, "full"),
          layout(2, 1, 1, 1, {"model.sequence_parallel=false"}),
          layout(2, 1, 1, 1, {"model.sequence_parallel=true"}, "sequence"),
          layout(4, 1, 1, 1, {"model.sequence_parallel=true"}, "sequence"),
          layout(2, 1, 1, 2, {"model.sequence_parallel=true"}, "sequence")};
}

/// `encoder` stages of the encoder in front of `pp` of the decoder.
LayoutCase stages(int encoder, int pp, int tp, int dp, std::vector<std::string> more = {},
                  const std::string& suffix = "") {
  const int ranks = tp * dp * (encoder + pp);
  more.insert(more.begin(),
              {"dist.ranks=" + std::to_string(ranks), "train.micro_batch_size=1",
               "model.encoder_pipeline_model_parallel_size=" + std::to_string(encoder)});
  const std::string own = "encoder" + std::to_string(encoder);
  return layout(tp, 1, pp, dp, more, suffix.empty() ? own : own + "_" + suffix);
}

std::vector<LayoutCase> staged_layouts() {
  const std::string full = "ddp.data_parallel_sharding_strategy=optim_grads_params",
                    schedule = "model.pipeline_schedule=",
                    chunks = "model.virtual_pipeline_model_parallel_size=2";
  const std::vector<std::string> again{"model.recompute_granularity=full",
                                       "model.recompute_method=uniform",
                                       "model.recompute_num_layers=1"};
  LayoutCase interleaved = stages(0, 2, 1, 1, {chunks}, "chunks");
  LayoutCase alone = stages(0, 2, 1, 1, {"model.pipeline_model_parallel_layout=E|ttttL"}, "alone");
  interleaved.only = alone.only = {"t5"};  // four blocks
  LayoutCase in_front = stages(1, 2, 1, 1, {chunks}, "chunks"),
             wide = stages(2, 2, 2, 1, {chunks, "model.sequence_parallel=true"}, "chunks_sequence"),
             replayed = stages(2, 2, 1, 1, again + std::vector{chunks}, "chunks_recompute");
  in_front.only = wide.only = replayed.only = {"t5"};
  // A stage without layers, and one with a chunk without.
  const std::string nothing = "model.pipeline_model_parallel_layout=Ett||t|tL";
  LayoutCase empty = stages(0, 4, 1, 1, {nothing}, "empty_stage"),
             empty_chunk = stages(1, 2, 1, 1, {nothing}, "empty_chunk"),
             between = stages(0, 2, 1, 1, {"model.pipeline_model_parallel_layout=E|t|tt|||tL"},
                              "empty_chunk_between");
  empty.only = empty_chunk.only = between.only = {"t5"};
  return {stages(0, 2, 1, 1),
          stages(0, 2, 1, 2, {full}, "full"),
          stages(0, 2, 2, 1, {"model.sequence_parallel=true"}, "sequence"),
          alone,
          interleaved,
          in_front,
          wide,
          replayed,
          empty,
          empty_chunk,
          between,
          stages(1, 1, 1, 1),
          stages(1, 1, 1, 2, {schedule + "gpipe"}, "gpipe"),
          stages(1, 2, 1, 1, again, "recompute"),
          stages(1, 2, 1, 1, {schedule + "zero_bubble"}, "zero_bubble"),
          stages(1, 2, 1, 2, {full}, "full"),
          stages(2, 2, 1, 1, {"model.variable_seq_lengths=true"}, "shapes"),
          stages(2, 1, 2, 1, {"model.sequence_parallel=true"}, "sequence")};
}

std::vector<LayoutCase> context_layouts() {
  const std::string gather = "model.cp_comm_type=all_gather";
  const auto rows = [](int number) { return "train.micro_batch_size=" + std::to_string(number); };
  LayoutCase staged = layout(
      1, 2, 1, 1, {gather, rows(1), "dist.ranks=4", "model.encoder_pipeline_model_parallel_size=1"},
      "encoder1");
  return {
      layout(1, 2, 1, 1, {gather, rows(2)}, "a_row_each"),
      layout(1, 2, 1, 1, {gather, rows(1)}, "blank_rows"), layout(1, 4, 1, 1, {gather, rows(2)}),
      layout(2, 2, 1, 1, {gather, rows(2), "model.sequence_parallel=true"}, "sequence"), staged};
}

std::vector<ModelLayout> cases() {
  std::vector<LayoutCase> all = layouts();
  for (const auto& more : {context_layouts(), staged_layouts()})
    all.insert(all.end(), more.begin(), more.end());
  return test::models_in_layouts({"t5", "t5_v1_1"}, all);
}

class EncoderDecoderLayout : public testing::TestWithParam<ModelLayout> {};

TEST_P(EncoderDecoderLayout, GivesTheReferencesGradients) {
  EXPECT_GT(test::expect_reference(GetParam(), 2e-5), 20);
}

TEST_P(EncoderDecoderLayout, TenStepsFollowTheTrace) {
  test::expect_trace(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Cases, EncoderDecoderLayout, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name(); });

// Needs more micro-batches than the case for gradients has.
TEST(EncoderDecoderStages, InAV) {
  for (const int own : {0, 1}) {
    test::expect_trace({"t5", stages(own, 2, 1, 1,
                                     {"model.virtual_pipeline_model_parallel_size=2",
                                      "model.pipeline_schedule=dualpipe_v"},
                                     "v")});
  }
}

/// Weights, masters and moments have the same bits, and the next step is that of one rank.
TEST(EncoderDecoderStages, ARunGoesOnInAnotherLayout) {
  const LayoutCase chunks =
      stages(1, 2, 1, 1, {"model.virtual_pipeline_model_parallel_size=2"}, "chunks");
  test::expect_goes_on(test::three_steps("t5") + test::Overrides{"model.encoder_seq_length=24"},
                       {{chunks, layout(1, 1, 1, 2)}, {layout(2, 1, 1, 1), chunks}}, 100);
}

}  // namespace
}  // namespace viaduct
