// A model with images recomputes what its blocks keep, those of the tower and those of the text,
// and offloads what those of the text keep: with the bits of a run that keeps everything, and with
// less memory.

#include <gtest/gtest.h>

#include "run/rank_device.h"
#include "support/paths.h"
#include "support/training.h"

namespace viaduct {
namespace {

using test::Overrides;
using test::operator+;

struct Outcome {
  test::RunOutcome run;
  int64_t peak_bytes = 0, offloaded_bytes = 0;
};

/// Two steps of rows with an image each, whose tower keeps more than the text.
Outcome train(const Overrides& overrides) {
  const auto folder = test::test_data("golden") / "llava_siglip" / "model";
  const RunSetup setup = test::setup_of(
      Overrides{"checkpoint.pretrained_checkpoint=" + folder.string(), "model.seq_length=24",
                "mixed_precision=fp32", "dataset.mock=true", "train.train_iters=2",
                "train.global_batch_size=16", "train.micro_batch_size=16",
                "validation.eval_iters=0", "logger.log_throughput=false"} +
      overrides);
  const RankDevice rank = make_rank_device(setup.config.dist);
  Trainer trainer(setup, *rank.device, rank.ops, {.peak_effort = PeakEffort::glance});
  trainer.run();
  EXPECT_EQ(rank.device->memory().unplanned_allocations, 0);
  return {test::outcome_of(trainer), rank.device->memory().peak_bytes,
          trainer.offload().done.put_bytes};
}

TEST(ImagesMemory, RecomputingAndOffloadingChangeNoBit) {
  const Overrides full{"model.recompute_granularity=full", "model.recompute_num_layers=1"},
      uniform = full + Overrides{"model.recompute_method=uniform"},
      selective{"model.recompute_granularity=selective",
                "model.recompute_modules=[core_attn, layernorm, mlp]"},
      modules{"model.fine_grained_activation_offloading=true",
              "model.offload_modules=[attn_norm, qkv_linear, core_attn, attn_proj, mlp_norm, mlp]",
              "model.min_offloaded_tensor_size=0"};
  const Outcome plain = train({});
  EXPECT_EQ(plain.offloaded_bytes, 0);
  for (const Overrides& policy :
       {uniform, Overrides(uniform + Overrides{"model.recompute_num_layers=2"}),
        Overrides(full +
                  Overrides{"model.recompute_method=block", "model.recompute_segments_apart=true"}),
        selective, modules,
        Overrides{"model.cpu_offloading=true", "model.cpu_offloading_num_layers=1"}}) {
    SCOPED_TRACE(policy.back());
    const Outcome outcome = train(policy);
    EXPECT_TRUE(outcome.run.tensors == plain.run.tensors);
    EXPECT_LT(outcome.peak_bytes, plain.peak_bytes);
  }
}

}  // namespace
}  // namespace viaduct
