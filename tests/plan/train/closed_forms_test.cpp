// The closed forms that planners use for memory, compared with dry runs: bytes of weights,
// gradients and optimizer state a parameter for each way of sharding, and bytes that a layer keeps
// for its backward. docs/memory.md has the table. All sizes are multiples of 128, so that nothing
// is padded.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/plan_memory.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

constexpr int64_t kHiddenSize = 128, kFeedForward = 256, kHeads = 4, kKvHeads = 2, kHeadDim = 32,
                  kTokens = 64;  // of a micro-batch

const Overrides kModel =
    tiny_run() + Overrides{"mixed_precision=bf16_mixed", "model.hidden_size=128",
                           "model.ffn_hidden_size=256",  "model.num_attention_heads=4",
                           "model.num_query_groups=2",   "train.train_iters=1"};
const Overrides kAware{"optimizer.use_precision_aware_optimizer=true"};
const Overrides kNarrowGradients =
    kAware + Overrides{"ddp.grad_reduce_in_fp32=false", "optimizer.main_grads_dtype=bf16"};

Overrides data(int ranks, const std::string& strategy) {
  return {fmt::format("dist.ranks={}", ranks), "train.global_batch_size=8",
          "ddp.data_parallel_sharding_strategy=" + strategy};
}
Overrides moments(const std::string& format) {
  return {"optimizer.exp_avg_dtype=" + format, "optimizer.exp_avg_sq_dtype=" + format};
}

struct StateRow {
  std::string name;
  Overrides settings;
  double bytes;  // of a parameter
};

const StateRow kStates[] = {
    {"replicated", data(2, "no_shard") + Overrides{"ddp.use_distributed_optimizer=false"}, 18},
    {"ZeRO-1, 2 ranks", data(2, "optim"), 6 + 12 / 2.0},
    {"ZeRO-1, 4 ranks", data(4, "optim"), 6 + 12 / 4.0},
    {"ZeRO-1, BF16 gradients", data(2, "optim") + Overrides{"ddp.grad_reduce_in_fp32=false"},
     4 + 12 / 2.0},
    {"ZeRO-2", data(4, "optim_grads"), 2 + 16 / 4.0},
    {"ZeRO-3", data(4, "optim_grads_params"), 18 / 4.0},
    {"ZeRO-3, 2 ranks", data(2, "optim_grads_params"), 18 / 2.0},
    {"remainders", data(2, "optim") + kAware, 6 + 10 / 2.0},
    {"remainders, BF16 moments", data(2, "optim") + kAware + moments("bf16"), 6 + 6 / 2.0},
    // A group of 64 elements has a scale of 4 bytes in each moment.
    {"remainders, FP8 moments", data(2, "optim") + kAware + moments("fp8"),
     6 + (4 + 2 * 4 / 64.0) / 2},
    {"remainders, moments in two formats",
     data(2, "optim") + kAware +
         Overrides{"optimizer.exp_avg_dtype=bf16", "optimizer.exp_avg_sq_dtype=fp8"},
     6 + (2 + 2 + 1 + 4 / 64.0) / 2},
    {"ZeRO-3, the narrowest", data(2, "optim_grads_params") + kNarrowGradients + moments("fp8"),
     (2 + 2 + 2 + 2 * (1 + 4 / 64.0)) / 2},
    {"instances", data(4, "optim") + Overrides{"ddp.num_distributed_optimizer_instances=2"},
     6 + 12 / 2.0},
    {"states in the second memory",
     data(2, "optim") + Overrides{"optimizer.optimizer_cpu_offload=true",
                                  "optimizer.optimizer_offload_fraction=1"},
     6}};

/// Bytes of weights, gradients and state that a rank holds permanently.
int64_t state_bytes(const RunSetup& setup) {
  int64_t bytes = 0;
  for (const PlannedAllocation& held : plan_memory(setup).plan.resident) {
    switch (held.tag) {
      case MemoryTag::weights:
      case MemoryTag::main_gradients:
      case MemoryTag::master_weights:
      case MemoryTag::moments:
        bytes += held.bytes;
        break;
      default:
        break;
    }
  }
  return bytes;
}

TEST(ClosedForms, StateBytesOfAParameter) {
  for (const StateRow& row : kStates) {
    const RunSetup setup = setup_of(kModel + row.settings);
    const auto parameters = static_cast<double>(dry_run(setup).parameters);
    EXPECT_EQ(static_cast<double>(state_bytes(setup)), row.bytes * parameters) << row.name;
  }
}

/// Bytes that one layer keeps of a micro-batch: the difference to a model with one more layer.
int64_t saved_by_layer(const Overrides& settings) {
  const auto saved = [&](int layers) {
    const DryRun run = dry_run(
        setup_of(kModel + settings + Overrides{fmt::format("model.num_layers={}", layers)}));
    return run.peak.bytes_by_tag.at(std::string(memory_tag_name(MemoryTag::saved)));
  };
  return saved(5) - saved(4);
}

/// The planner's form with sequence parallelism: inputs and outputs of norms, queries, keys and
/// values, attended values, log-sum-exps, the gated feed-forward.
int64_t planned(int64_t tokens, int64_t tp) {
  const int64_t norms = 4 * 2 * kHiddenSize,
                attention = 2 * kHeadDim * (kHeads + 2 * kKvHeads) + 2 * kHeads * kHeadDim,
                feed_forward = 6 * kFeedForward;
  return tokens / tp * (norms + attention + feed_forward) + 4 * tokens * kHeads / tp;
}
/// It leaves out the FP32 statistic of each row in a norm.
int64_t statistics(int64_t tokens, int64_t tp) {
  return 2 * 4 * tokens / tp;
}

TEST(ClosedForms, SavedBytesOfALayer) {
  EXPECT_EQ(saved_by_layer({}), planned(kTokens, 1) + statistics(kTokens, 1));
  const Overrides tp{"dist.ranks=2", "model.tensor_model_parallel_size=2"};
  EXPECT_EQ(saved_by_layer(tp), planned(kTokens, 2) + statistics(kTokens, 2));
  const Overrides cp{"dist.ranks=2", "model.context_parallel_size=2"};
  EXPECT_EQ(saved_by_layer(cp), planned(kTokens / 2, 1) + statistics(kTokens / 2, 1));
}

TEST(ClosedForms, WithoutSequenceParallelNormsAreWhole) {
  const Overrides tp{"dist.ranks=2", "model.tensor_model_parallel_size=2",
                     "model.sequence_parallel=false"};
  const int64_t norms = kTokens * 4 * 2 * kHiddenSize;
  EXPECT_EQ(saved_by_layer(tp), planned(kTokens, 2) + norms / 2 + statistics(kTokens, 1));
}

TEST(ClosedForms, RecomputeKeepsWhatItSays) {
  const int64_t all = planned(kTokens, 1) + statistics(kTokens, 1);
  const auto selective = [](const std::string& modules) {
    return Overrides{"model.recompute_granularity=selective",
                     "model.recompute_modules=[" + modules + "]"};
  };
  EXPECT_EQ(saved_by_layer(selective("layernorm")), all - 2 * 2 * kTokens * kHiddenSize);
  EXPECT_EQ(saved_by_layer(selective("mlp")), all - 6 * kTokens * kFeedForward);
  // The log-sum-exps are kept here; the form leaves them out.
  EXPECT_EQ(saved_by_layer(selective("core_attn")), all - 2 * kTokens * kHeads * kHeadDim);
  EXPECT_EQ(saved_by_layer({"model.recompute_granularity=full", "model.recompute_method=uniform",
                            "model.recompute_num_layers=1"}),
            2 * kTokens * kHiddenSize);
}

TEST(ClosedForms, ParallelBlocksKeepTheirInputOnce) {
  const int64_t stream = 2 * kTokens * kHiddenSize, rows = statistics(kTokens, 1);
  const int64_t two_norms = planned(kTokens, 1) + rows - stream,
                one_norm = planned(kTokens, 1) + rows / 2 - 2 * stream;
  const Overrides two{"model.parallel_block=true"},
      one = two + Overrides{"model.parallel_block_shared_norm=true"},
      again{"model.recompute_granularity=selective", "model.recompute_modules=[layernorm]"};
  EXPECT_EQ(saved_by_layer(two), two_norms);
  EXPECT_EQ(saved_by_layer(one), one_norm);
  EXPECT_EQ(saved_by_layer(two + again), two_norms - 2 * stream);
  EXPECT_EQ(saved_by_layer(one + again), one_norm - stream);
}

}  // namespace
}  // namespace viaduct
