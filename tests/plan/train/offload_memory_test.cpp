// The effect on memory of offloading saved values and optimizer states, of shares of saved inputs
// and of partial recompute, read from dry runs, by formula.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "device/memory_tag.h"
#include "engine/plan_memory.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

constexpr int64_t kTokens = 64, kHiddenSize = 32, kFeedForward = 64, kHeads = 4, kHeadDim = 8,
                  kMicroBatches = 2;  // of tiny_run, in FP32
constexpr int64_t kStream = kTokens * kHiddenSize * 4;

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
    // A micro-batch is fetched before the next one is offloaded; slots are whole pages.
    EXPECT_GE(run.offload.most_bytes, number * layer);
    EXPECT_LT(run.offload.most_bytes, number * layer + 4096 * run.offload.puts);
  }
  // Layers that are offloaded while others still run are away at the peak.
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
  EXPECT_EQ(moved("mlp, mlp_norm", kTokens * kHiddenSize), 2 * kStream + inside);
  EXPECT_EQ(moved("mlp, mlp_norm", kTokens * kHiddenSize + 1), inside);
  EXPECT_EQ(moved("mlp, mlp_norm", 2 * kTokens * kFeedForward + 1), 0);
}

// Masters and moments have 12 bytes an element, and are on the device only for their update.
TEST(OffloadMemory, StatesAreHereOneOrTwoBucketsAtATime) {
  const auto states = [](const std::string& fraction, bool overlap) {
    return run_of({"mixed_precision=bf16_mixed", "optimizer.optimizer_cpu_offload=true",
                   "optimizer.optimizer_offload_fraction=" + fraction,
                   fmt::format("optimizer.overlap_cpu_optimizer_d2h_h2d={}", overlap),
                   "ddp.bucket_size=6000"});
  };
  const auto bytes = [](const DryRun& run, MemoryTag tag) {
    const auto found = run.peak.bytes_by_tag.find(std::string(memory_tag_name(tag)));
    return found == run.peak.bytes_by_tag.end() ? 0 : found->second;
  };
  const DryRun kept = run_of({"mixed_precision=bf16_mixed", "ddp.bucket_size=6000"}),
               one = states("1", false), two = states("1", true), half = states("0.5", false);
  const int64_t all = 12 * kept.parameters;
  EXPECT_EQ(one.offload.put_bytes, all);
  EXPECT_EQ(one.offload.fetched_bytes, all);
  EXPECT_EQ(two.offload.put_bytes, all);
  EXPECT_GE(one.offload.most_bytes, all);
  EXPECT_LT(one.offload.most_bytes, all + 4096 * one.offload.puts);
  EXPECT_LE(half.offload.put_bytes, all / 2);
  EXPECT_GT(half.offload.put_bytes, all / 3);
  // The peak is in the backward, when none of them is on the device.
  EXPECT_EQ(bytes(one, MemoryTag::moments) + bytes(one, MemoryTag::master_weights), 0);
  EXPECT_EQ(kept.peak.bytes - one.peak.bytes,
            bytes(kept, MemoryTag::moments) + bytes(kept, MemoryTag::master_weights));
  EXPECT_EQ(half.peak.bytes - one.peak.bytes, all - half.offload.put_bytes);
}

// A rank holds the units of weights and gradients that are gathered or being reduced, and a few
// shards.
TEST(OffloadMemory, ShardsAreHereForTheirUse) {
  const Overrides sharded{"dist.ranks=2",
                          "ddp.data_parallel_sharding_strategy=optim_grads_params",
                          "model.recompute_granularity=full",
                          "model.recompute_method=uniform",
                          "model.recompute_num_layers=1",
                          "ddp.overlap_param_gather=false",
                          "ddp.overlap_grad_reduce=false"},
      weights{"model.cpu_offloading=true", "model.cpu_offloading_weights=true"};
  const auto resident = [](const Overrides& settings, MemoryTag tag) {
    int64_t bytes = 0;
    for (const PlannedAllocation& held : plan_memory(setup_of(kRun + settings)).plan.resident)
      bytes += held.tag == tag ? held.bytes : 0;
    return bytes;
  };
  const auto shard = resident(sharded, MemoryTag::weights);
  EXPECT_GT(shard, 0);
  EXPECT_EQ(resident(sharded, MemoryTag::main_gradients), shard);
  EXPECT_EQ(resident(sharded + weights, MemoryTag::weights), 0);
  EXPECT_EQ(resident(sharded + weights, MemoryTag::main_gradients), 0);
  const DryRun kept = run_of(sharded), run = run_of(sharded + weights);
  // In the one micro-batch forward and backward read the weights (of embedding and head once), and
  // the update reads them once more; the norm and the update read the gradients. Both are stored
  // once.
  EXPECT_GT(run.offload.fetched_bytes, 4 * shard);
  EXPECT_EQ(run.offload.put_bytes, 2 * shard);
  EXPECT_EQ(run.cost.total_flops(), kept.cost.total_flops());
  // At most a unit's own shards are on the device beside its whole tensors.
  EXPECT_GT(kept.peak.bytes - run.peak.bytes, shard);
  // At the peak a unit is whole, and its own shard is offloaded again.
  const auto weights_at_peak = [](const DryRun& of) {
    return of.peak.bytes_by_tag.at(std::string(memory_tag_name(MemoryTag::weights)));
  };
  EXPECT_EQ(weights_at_peak(run), weights_at_peak(kept) - shard);
}

// Recomputed values are computed again, and not offloaded as well.
TEST(OffloadMemory, LayersLeaveWithWhatIsNotRecomputed) {
  const Overrides again{"model.recompute_granularity=selective", "model.recompute_modules=[mlp]"};
  const DryRun recomputed = run_of(again), both = run_of(layers(8) + again),
               left = run_of(layers(8));
  EXPECT_EQ(both.cost.total_flops(), recomputed.cost.total_flops());
  EXPECT_LT(both.offload.put_bytes, left.offload.put_bytes);
  EXPECT_GT(both.offload.put_bytes, 0);
}

// Full recompute keeps inputs of layers: with shares, half of each on two tensor ranks. At the peak
// the last layer runs again with its whole input.
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
      if (t.group == "tp" && t.operation == Collective::all_gather) bytes += t.bytes;
    }
    return bytes;
  };
  EXPECT_EQ(gathers(share) - gathers(whole), kMicroBatches * 8 * kStream);
}

// The inputs of recomputed layers are offloaded too: each micro-batch's stream into each of 8
// layers. Recomputed apart, attention and feed-forward keep two inputs, and the values inside of
// only one of them exist at a time.
TEST(OffloadMemory, InputsOfLayersThatRunAgain) {
  const Overrides full{"model.recompute_granularity=full", "model.recompute_method=uniform",
                       "model.recompute_num_layers=1"},
      apart{"model.recompute_segments_apart=true"};
  const DryRun kept = run_of(full), left = run_of(full + layers(8)),
               some = run_of(full + layers(3));
  EXPECT_EQ(left.offload.put_bytes, kMicroBatches * 8 * kStream);
  EXPECT_EQ(some.offload.put_bytes, kMicroBatches * 3 * kStream);
  EXPECT_EQ(left.offload.fetched_bytes, left.offload.put_bytes);
  // When the last layer is recomputed, the others' inputs are away; its own is on the device in
  // both cases.
  EXPECT_EQ(saved(kept) - saved(left), 7 * kStream);
  EXPECT_EQ(left.cost.total_flops(), kept.cost.total_flops());
  const Overrides wide = full + Overrides{"model.ffn_hidden_size=1024"};
  const DryRun whole = run_of(wide + layers(8)), parts = run_of(wide + apart),
               none = run_of(wide + apart + layers(8));
  EXPECT_EQ(none.offload.put_bytes, kMicroBatches * 16 * kStream);
  // Recomputed apart, attention does not compute its last product and the following sum again
  // either.
  EXPECT_EQ(whole.cost.total_flops() - parts.cost.total_flops(),
            kMicroBatches * 8 * (2 * kTokens * kHiddenSize * kHiddenSize + kTokens * kHiddenSize));
  // While the feed-forward is recomputed, nothing of attention is on the device: its input, the
  // norm's output, queries, keys, values and attended values. Only the first has statistics of rows
  // on the device.
  const int64_t statistics = 4 * (kTokens + kTokens * kHeads);
  EXPECT_EQ(saved(whole) - saved(none), 6 * kStream + statistics);
}

// On the first of two stages, one or none of two micro-batches in flight keeps everything.
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
