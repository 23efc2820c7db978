// What offload, shares of saved inputs and partial recompute do to memory, read from dry runs, by
// formula.

#include <gtest/gtest.h>

#include "device/memory_tag.h"
#include "support/training.h"
#include "train/dry_run.h"

namespace viaduct {
namespace {

using namespace test;

constexpr int64_t kTokens = 64, kHidden = 32, kFeedForward = 64, kHeads = 4, kHeadDim = 8,
                  kMicroBatches = 2;  // of tiny_run, in FP32
constexpr int64_t kStream = kTokens * kHidden * 4;

const Overrides kRun = tiny_run() + Overrides{"model.num_layers=8"};

DryRun run_of(const Overrides& more) {
  return dry_run(setup_of(kRun + more));
}
int64_t saved(const DryRun& run) {
  return run.peak.bytes_by_tag.at(std::string(memory_tag_name(MemoryTag::saved)));
}
Overrides layers(int number) {
  return {"model.cpu_offloading=true", "model.cpu_offloading_num_layers=" + std::to_string(number)};
}
Overrides modules(const std::string& names, int least = 0) {
  return {"model.fine_grained_activation_offloading=true", "model.offload_modules=[" + names + "]",
          "model.min_offloaded_tensor_size=" + std::to_string(least)};
}

TEST(OffloadMemory, ALayerMovesAllThatItKeepsButStatistics) {
  const int64_t layer = 4 * kStream +                          // streams, and outputs of norms
                        3 * kTokens * kHeads * kHeadDim * 4 +  // queries, keys, values
                        kTokens * kHeads * kHeadDim * 4 +      // attended values
                        3 * kTokens * kFeedForward * 4;        // of the gated feed-forward
  const DryRun kept = run_of({});
  EXPECT_EQ(kept.offload.puts, 0);
  for (const int number : {1, 3, 8}) {
    const DryRun run = run_of(layers(number));
    EXPECT_EQ(run.offload.put_bytes, kMicroBatches * number * layer) << number;
    EXPECT_EQ(run.offload.fetched_bytes, run.offload.put_bytes) << number;
    EXPECT_EQ(run.offload.puts, run.offload.fetches);
    // A micro-batch is back before the next one leaves; slots are whole pages.
    EXPECT_GE(run.offload.most_bytes, number * layer);
    EXPECT_LT(run.offload.most_bytes, number * layer + 4096 * run.offload.puts);
  }
  // Layers that leave while others are still to come are not there at the fullest moment.
  EXPECT_EQ(saved(kept) - saved(run_of(layers(3))), 3 * layer);
}

TEST(OffloadMemory, ModulesMoveTheirOwn) {
  const auto moved = [](const std::string& names, int least = 0) {
    return run_of(modules(names, least)).offload.put_bytes / kMicroBatches / 8;
  };
  const int64_t inside = 3 * kTokens * kFeedForward * 4;
  EXPECT_EQ(moved("mlp_norm"), kStream);
  EXPECT_EQ(moved("mlp"), kStream + inside);
  EXPECT_EQ(moved("core_attn"), 3 * kStream);
  EXPECT_EQ(moved("core_attn, attn_proj"), 4 * kStream);
  // Streams have 2048 elements, the inside of the feed-forward 8192 and 4096.
  EXPECT_EQ(moved("mlp, mlp_norm", kTokens * kHidden), 2 * kStream + inside);
  EXPECT_EQ(moved("mlp, mlp_norm", kTokens * kHidden + 1), inside);
  EXPECT_EQ(moved("mlp, mlp_norm", 2 * kTokens * kFeedForward + 1), 0);
}

// What is recomputed is made again, and not moved as well.
TEST(OffloadMemory, LayersLeaveWithWhatIsNotRecomputed) {
  const Overrides again{"model.recompute_granularity=selective", "model.recompute_modules=[mlp]"};
  const DryRun recomputed = run_of(again), both = run_of(layers(8) + again),
               left = run_of(layers(8));
  EXPECT_EQ(both.cost.total_flops(), recomputed.cost.total_flops());
  EXPECT_LT(both.offload.put_bytes, left.offload.put_bytes);
  EXPECT_GT(both.offload.put_bytes, 0);
}

// Full recompute keeps inputs of layers: with shares, half of each on two tensor ranks. At the
// fullest moment the last layer runs again and its input is whole.
TEST(OffloadMemory, SharesOfLayerInputs) {
  const Overrides run{"dist.ranks=2",
                      "model.tensor_model_parallel_size=2",
                      "model.sequence_parallel=false",
                      "model.recompute_granularity=full",
                      "model.recompute_method=uniform",
                      "model.recompute_num_layers=1"};
  const DryRun whole = run_of(run),
               share = run_of(run + Overrides{"model.distribute_saved_activations=true"});
  EXPECT_EQ(saved(whole) - saved(share), 7 * kStream / 2);
  const auto gathers = [](const DryRun& one) {
    int64_t bytes = 0;
    for (const GroupTraffic& t : one.traffic) {
      if (t.group == "tp" && t.operation == "all_gather") bytes += t.bytes;
    }
    return bytes;
  };
  EXPECT_EQ(gathers(share) - gathers(whole), kMicroBatches * 8 * kStream);
}

// Of two micro-batches in flight on the first of two stages, one or none keeps what it can.
TEST(OffloadMemory, PartialRecomputeOfMicroBatchesInFlight) {
  const Overrides stages{"dist.ranks=2", "model.pipeline_model_parallel_size=2",
                         "train.global_batch_size=8"};
  const std::string partial = "model.num_microbatches_with_partial_activation_checkpoints=";
  const Overrides selective{"model.recompute_granularity=selective",
                            "model.recompute_modules=[mlp]"};
  const int64_t all = saved(run_of(stages + selective)), none = saved(run_of(stages)),
                of_none = saved(run_of(stages + selective + Overrides{partial + "0"})),
                of_one = saved(run_of(stages + selective + Overrides{partial + "1"})),
                of_two = saved(run_of(stages + selective + Overrides{partial + "2"}));
  EXPECT_EQ(of_none, all);
  EXPECT_EQ(of_two, none);
  EXPECT_LT(all, of_one);
  EXPECT_LT(of_one, none);
  const Overrides block{"model.recompute_granularity=full", "model.recompute_method=block",
                        "model.recompute_num_layers=1"};
  const int64_t one_layer = saved(run_of(stages + block)),
                mixed = saved(run_of(stages + block + Overrides{partial + "1"})),
                every_layer = saved(run_of(stages + block + Overrides{partial + "0"}));
  EXPECT_LT(every_layer, mixed);
  EXPECT_LT(mixed, one_layer);
}

}  // namespace
}  // namespace viaduct
