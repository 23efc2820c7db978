// A model with an encoder recomputes and offloads what its blocks keep, those of the encoder and
// those of the decoder: with the bits of a run that keeps everything, and with less memory.

#include <gtest/gtest.h>

#include "run/rank_device.h"
#include "support/training.h"

namespace viaduct {
namespace {

using test::Overrides;
using test::operator+;

struct Outcome {
  test::RunOutcome run;
  int64_t peak_bytes = 0, offloaded_bytes = 0;
};

/// Two steps with dropout, of rows that make activations large beside weights.
Outcome train(const Overrides& overrides) {
  const RunSetup setup = test::setup_of(
      test::tiny_run("t5") +
      Overrides{"model.encoder_num_layers=3", "model.encoder_seq_length=48", "train.train_iters=2",
                "train.micro_batch_size=4", "model.hidden_dropout=0.1",
                "model.attention_dropout=0.1", "logger.log_throughput=false"} +
      overrides);
  const RankDevice rank = make_rank_device(setup.config.dist);
  Trainer trainer(setup, *rank.device, rank.ops, {.peak_effort = PeakEffort::glance});
  trainer.run();
  EXPECT_EQ(rank.device->memory().unplanned_allocations, 0);
  return {test::outcome_of(trainer), rank.device->memory().peak_bytes,
          trainer.offload().done.put_bytes};
}

TEST(EncoderMemory, RecomputingAndOffloadingChangeNoBit) {
  const Overrides full{"model.recompute_granularity=full", "model.recompute_num_layers=1"},
      uniform = full + Overrides{"model.recompute_method=uniform"},
      block = full + Overrides{"model.recompute_method=block"},
      selective{"model.recompute_granularity=selective",
                "model.recompute_modules=[core_attn, layernorm, mlp]"},
      modules{"model.fine_grained_activation_offloading=true",
              "model.offload_modules=[attn_norm, qkv_linear, core_attn, attn_proj, mlp_norm, mlp]",
              "model.min_offloaded_tensor_size=0"};
  const auto layers = [](const char* number) {
    return Overrides{"model.cpu_offloading=true",
                     std::string("model.cpu_offloading_num_layers=") + number};
  };
  const Outcome plain = train({});
  EXPECT_EQ(plain.offloaded_bytes, 0);
  for (const Overrides& policy :
       {uniform,
        Overrides(full +
                  Overrides{"model.recompute_method=uniform", "model.recompute_num_layers=2"}),
        Overrides(block + Overrides{"model.recompute_segments_apart=true"}), selective, modules,
        layers("4"), Overrides(layers("5") + uniform)}) {
    SCOPED_TRACE(policy.back());
    const Outcome outcome = train(policy);
    EXPECT_TRUE(outcome.run.tensors == plain.run.tensors);
    EXPECT_LT(outcome.peak_bytes, plain.peak_bytes);
  }
}

// Blocks in front of the others: the encoder's. The encoder's output stays, since all blocks of the
// decoder read it.
TEST(EncoderMemory, OffloadedLayersAreCountedFromTheFirstOfTheEncoder) {
  const auto bytes = [](int layers, int encoder_length) {
    return train({"model.cpu_offloading=true",
                  "model.cpu_offloading_num_layers=" + std::to_string(layers),
                  "model.encoder_seq_length=" + std::to_string(encoder_length)})
        .offloaded_bytes;
  };
  const int64_t one = bytes(1, 48);
  EXPECT_GT(one, 0);
  EXPECT_EQ(bytes(3, 48), 3 * one);
  EXPECT_EQ(bytes(1, 96), 2 * one);
  // A block of the decoder keeps keys and values of the encoder's rows, and not the rows.
  const int64_t hidden = 32, rows = 4 * 1 * 2;  // rows of two steps
  const int64_t of_decoder = bytes(4, 96) - 3 * bytes(1, 96) - (bytes(4, 48) - 3 * one);
  EXPECT_EQ(of_decoder, rows * 48 * 2 * hidden * static_cast<int64_t>(sizeof(float)));
}

}  // namespace
}  // namespace viaduct
