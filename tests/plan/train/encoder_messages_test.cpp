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

/// Bytes that a rank of each stage sends in a step.
std::vector<int64_t> sent(const Overrides& more) {
  const RunSetup setup = setup_of(
      tiny_run("t5") +
      Overrides{"model.hidden_size=64", "model.num_attention_heads=4", "model.num_layers=4",
                "model.encoder_num_layers=4", "model.seq_length=32", "model.encoder_seq_length=48",
                "mixed_precision=fp32", "train.micro_batch_size=1", "train.global_batch_size=4"} +
      more);
  std::vector<int64_t> bytes;
  for (const DryRun& run : dry_run_stages(setup)) {
    bytes.push_back(0);
    for (const GroupTraffic& one : run.traffic)
      if (one.group == "pp" && one.operation == Collective::send) bytes.back() += one.bytes;
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

}  // namespace
}  // namespace viaduct
