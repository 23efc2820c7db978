// Bytes between the stages of T5 by a formula: what the encoder makes goes once over each edge up
// to the stage with the last block, beside the residual stream, and its gradient comes back as
// often.

#include <gtest/gtest.h>

#include "engine/dry_run.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

constexpr int64_t kRows = 4, kTokens = 32, kEncoderTokens = 48, kHidden = 64, kBytes = 4;

std::vector<DryRun> stages_of(const Overrides& more) {
  return dry_run_stages(setup_of(
      tiny_run("t5") +
      Overrides{"model.hidden_size=64", "model.num_attention_heads=4", "model.num_layers=4",
                "model.encoder_num_layers=4", "model.seq_length=32", "model.encoder_seq_length=48",
                "mixed_precision=fp32", "train.micro_batch_size=1", "train.global_batch_size=4"} +
      more));
}

/// Bytes that a rank of each stage sends, or receives, in a step.
std::vector<int64_t> sent(const Overrides& more, Collective operation = Collective::send) {
  std::vector<int64_t> bytes;
  for (const DryRun& run : stages_of(more)) {
    bytes.push_back(0);
    for (const GroupTraffic& one : run.traffic)
      if (one.group == "pp" && one.operation == operation) bytes.back() += one.bytes;
  }
  return bytes;
}

TEST(EncoderMessages, AreThoseOfTheFormula) {
  const int64_t stream = kRows * kTokens * kHidden * kBytes,
                encoded = kRows * kEncoderTokens * kHidden * kBytes;
  const std::string own = "model.encoder_pipeline_model_parallel_size=",
                    pp = "model.pipeline_model_parallel_size=";
  // Encoder, and a decoder of two stages.
  EXPECT_EQ(sent({"dist.ranks=3", own + "1", pp + "2"}),
            (std::vector{encoded, encoded + stream + encoded, stream + encoded}));
  // Between stages of the encoder goes its own stream.
  EXPECT_EQ(sent({"dist.ranks=3", own + "2"}), (std::vector{encoded, 2 * encoded, encoded}));
  // A stage of the head alone reads nothing of it.
  EXPECT_EQ(sent({"dist.ranks=2", pp + "2", "model.pipeline_model_parallel_layout=Et*4|L"}),
            (std::vector{stream, stream}));
  // Two tensor ranks with sequence parallelism send halves.
  EXPECT_EQ(sent({"dist.ranks=4", own + "1", "model.tensor_model_parallel_size=2",
                  "model.sequence_parallel=true"}),
            (std::vector{encoded / 2, encoded / 2}));
}

/// Adapters of these modules.
Overrides adapters(const std::string& modules) {
  return {"peft.scheme=lora", "peft.dim=2", "peft.target_modules=[" + modules + "]"};
}

const Overrides kDecoder = adapters("decoder.*"),
                kBoth = adapters("decoder.*,encoder.block.0.layer.0.SelfAttention.q");
const std::string kOwn = "model.encoder_pipeline_model_parallel_size=",
                  kStages = "model.pipeline_model_parallel_size=";

// Adapters of the decoder alone: the stream's gradient comes back, and nothing of the encoder's.
TEST(FrozenEncoder, NoGradientGoesBackToIt) {
  const int64_t stream = kRows * kTokens * kHidden * kBytes,
                encoded = kRows * kEncoderTokens * kHidden * kBytes;
  const Overrides three{"dist.ranks=3", kOwn + "1", kStages + "2"};
  EXPECT_EQ(sent(kDecoder + three), (std::vector{encoded, stream + encoded, stream}));
  EXPECT_EQ(sent(kDecoder + Overrides{"dist.ranks=2", kStages + "2"}),
            (std::vector{stream + encoded, stream}));
  EXPECT_EQ(sent(kDecoder + Overrides{"dist.ranks=3", kOwn + "2"}),
            (std::vector{encoded, encoded, int64_t{0}}));
  EXPECT_EQ(sent(kDecoder + Overrides{"dist.ranks=3", kOwn + "2"}, Collective::receive),
            (std::vector{int64_t{0}, encoded, encoded}));
  EXPECT_EQ(
      sent(kDecoder + Overrides{"dist.ranks=4", kOwn + "1", "model.tensor_model_parallel_size=2",
                                "model.sequence_parallel=true"}),
      (std::vector{encoded / 2, int64_t{0}}));
  // Named by what is left out.
  EXPECT_EQ(sent(adapters("all-linear") + Overrides{"peft.exclude_modules=[encoder.*]"} + three),
            sent(kDecoder + three));
  // An adapter of its first matrix, its norms and the token table have gradients.
  const std::vector back{encoded, encoded + stream + encoded, stream + encoded};
  EXPECT_EQ(sent(kBoth + three), back);
  for (const char* module : {"encoder.final_layer_norm", "shared"})
    EXPECT_EQ(sent(kDecoder + three + Overrides{std::string("peft.train=[") + module + "]"}), back);
}

// With fewer tensor ranks of the decoder an encoder's rank would gather the gradient of its rows.
TEST(FrozenEncoder, NoTensorRankGathersAGradient) {
  const auto gathered = [](const Overrides& adapters) {
    int64_t bytes = 0;
    for (const DryRun& run :
         stages_of(adapters + Overrides{"dist.ranks=3", kOwn + "1",
                                        "model.encoder_tensor_model_parallel_size=2"}))
      for (const GroupTraffic& one : run.traffic)
        if (one.group == "tp.split" && one.operation == Collective::all_gather) bytes += one.bytes;
    return bytes;
  };
  EXPECT_GT(gathered(kBoth), 0);
  EXPECT_EQ(gathered(kDecoder), 0);
}

int64_t saved_bytes(const DryRun& run) {
  const auto found = run.peak.bytes_by_tag.find("saved activations");
  return found == run.peak.bytes_by_tag.end() ? 0 : found->second;
}

TEST(FrozenEncoder, KeepsNothing) {
  const Overrides two{"dist.ranks=2", kOwn + "1"};
  const auto with = stages_of(kBoth + two), frozen = stages_of(kDecoder + two);
  // A stage of its own has what it sends, and no longer.
  const int64_t encoded = kEncoderTokens * kHidden * kBytes;
  EXPECT_GT(saved_bytes(with[0]), 20 * encoded);
  EXPECT_LE(saved_bytes(frozen[0]), 2 * encoded);
  EXPECT_LE(frozen[1].peak.bytes, with[1].peak.bytes);
  // On the decoder's stage, whose own blocks keep the same.
  const auto here = [](const Overrides& adapters) { return stages_of(adapters).front(); };
  EXPECT_LT(saved_bytes(here(kDecoder)) + 10 * encoded, saved_bytes(here(kBoth)));
  // What nothing reads for the gradient of a weight is not kept either.
  EXPECT_LE(saved_bytes(here(adapters("decoder.*.SelfAttention.*"))) + encoded,
            saved_bytes(here(kDecoder)));
  // Blocks that keep nothing are not run again.
  const Overrides again{"model.recompute_granularity=full", "model.recompute_method=uniform",
                        "model.recompute_num_layers=1"};
  const auto replayed = stages_of(kDecoder + two + again);
  EXPECT_EQ(replayed[0].cost.total_flops(), frozen[0].cost.total_flops());
  EXPECT_GT(replayed[1].cost.total_flops(), frozen[1].cost.total_flops());
}

// A forward of the encoder, and of the keys and values of its output.
TEST(FrozenEncoder, CountsTheOperationsThatAreLeft) {
  const auto with = stages_of(kBoth), frozen = stages_of(kDecoder);
  const double tokens = kRows * kEncoderTokens, h = kHidden;
  const ModelConfig model = setup_of(tiny_run("t5")).model;
  const double feed_forward = (model.gated ? 3 : 2) * h * static_cast<double>(model.feed_forward);
  const double matrices = 4 * (4 * h * h + feed_forward) + 4 * 2 * h * h,
               pairs = 4 * 2 * h * kEncoderTokens;  // of a token
  const double adapter = 6 * 2 * 2 * h;             // of the encoder's one
  const double reduced = 2 * 2 * h * 2 * 4;         // what rank 2 of keys and values gives back
  EXPECT_DOUBLE_EQ(with.front().model_flops - frozen.front().model_flops,
                   tokens * (2 * matrices + 4 * pairs + adapter + reduced));
  EXPECT_LT(frozen.front().cost.total_flops(), 0.8 * with.front().cost.total_flops());
}

}  // namespace
}  // namespace viaduct
