// Packed documents over context ranks, in recipes and layers that exchange something for each
// micro-batch: any number of tokens, and ranks with different numbers of micro-batches.

#include <gtest/gtest.h>

#include "run/launch.h"
#include "run/rank_device.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

const Overrides kDocuments = tiny_run() + Overrides{"model.hidden_size=64",
                                                    "model.ffn_hidden_size=128",
                                                    "model.seq_length=64",
                                                    "train.global_batch_size=8",
                                                    "train.train_iters=3",
                                                    "optimizer.lr=1e-3",
                                                    "validation.eval_iters=1",
                                                    "validation.eval_interval=3",
                                                    "dataset.eod_id=3",
                                                    "dataset.reset_attention_mask=true",
                                                    "dataset.reset_position_ids=true",
                                                    "dist.threads_per_rank=1",
                                                    "logger.log_throughput=false",
                                                    "dist.distributed_timeout_minutes=1"};
const Overrides kContext{"dist.ranks=2", "model.context_parallel_size=2"},
    kTensor{"dist.ranks=4", "model.context_parallel_size=2", "model.tensor_model_parallel_size=2"},
    kHybrid{"model.hybrid_context_parallel=true", "model.max_seqlen_per_dp_cp_rank=16",
            "train.micro_batch_size=1"},
    kNvfp4{"mixed_precision=bf16_with_nvfp4_mixed"},
    kCurrent{"mixed_precision=bf16_with_fp8_current_scaling_mixed"},
    kDelayed{"mixed_precision=bf16_with_fp8_delayed_scaling_mixed"},
    kAttention{"mixed_precision.fp8_dot_product_attention=true"};

/// Of evaluated rows, after the steps.
double final_loss(const Overrides& overrides) {
  const RunSetup setup = setup_of(kDocuments + overrides);
  double loss = 0;
  run_ranks(setup.config.dist, Launch(), [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {.peak_effort = PeakEffort::glance}, world);
    trainer.run();
    if (world->rank() == 0) loss = trainer.validations().back().second;
  });
  return loss;
}

TEST(PackedContext, RunsWithAnyNumberOfTokensOnARank) {
  for (const Overrides& recipe : {kNvfp4, kCurrent}) {
    const double one = final_loss(recipe);
    for (const Overrides& layout : {kContext, kTensor})
      EXPECT_NEAR(final_loss(recipe + layout), one, 0.02) << recipe.back() << layout.front();
  }
}

TEST(PackedContext, RanksThatShareDocumentsExchangeForEachOfThem) {
  const Overrides four{"dist.ranks=4", "model.context_parallel_size=4"},
      data{"dist.ranks=4", "model.context_parallel_size=1"},
      mixed{"dist.ranks=4", "model.context_parallel_size=2"};
  for (const Overrides& recipe :
       {kNvfp4, kCurrent, kCurrent + kAttention, kDelayed + kAttention,
        kDelayed + kAttention + Overrides{"mixed_precision.tp_only_amax_red=true"}}) {
    const double one = final_loss(recipe);
    for (const Overrides& layout : {four, data, mixed})
      EXPECT_NEAR(final_loss(recipe + layout + kHybrid), one, 0.02)
          << recipe.back() << " " << layout.back();
  }
}

TEST(PackedContext, RoutersCountTheTokensOfADocumentsRanks) {
  const Overrides experts{"model.family=qwen3_moe", "model.num_moe_experts=4",
                          "model.moe_router_topk=2", "model.moe_ffn_hidden_size=32",
                          "model.moe_aux_loss_coeff=0.01"};
  const double one = final_loss(experts);
  for (const Overrides& layout :
       {Overrides{"dist.ranks=4", "model.context_parallel_size=4"}, Overrides{"dist.ranks=4"}})
    EXPECT_NEAR(final_loss(experts + layout + kHybrid), one, 0.02) << layout.back();
}

}  // namespace
}  // namespace viaduct
