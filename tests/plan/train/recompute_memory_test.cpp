// The effect of recomputation on memory and work, from dry runs: fewer bytes are saved, more
// operations run, and the model FLOPs are unchanged.

#include <gtest/gtest.h>

#include "device/memory_tag.h"
#include "engine/dry_run.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

constexpr int64_t kTokens = 64, kHiddenSize = 32, kLayers = 8;  // of a micro-batch of tiny_run

const Overrides kRun = tiny_run() + Overrides{"model.num_layers=8", "train.global_batch_size=4"};

/// A dry run and its peak bytes of a tag.
DryRun run_of(const Overrides& more) {
  return dry_run(setup_of(kRun + more));
}
int64_t bytes(const DryRun& run, MemoryTag tag) {
  const auto found = run.peak.bytes_by_tag.find(std::string(memory_tag_name(tag)));
  return found == run.peak.bytes_by_tag.end() ? 0 : found->second;
}

Overrides layers(const std::string& method, int number) {
  return {"model.recompute_granularity=full", "model.recompute_method=" + method,
          "model.recompute_num_layers=" + std::to_string(number)};
}

TEST(RecomputeMemory, LayersKeepTheirInputAndOneIsLive) {
  const DryRun kept = run_of({});
  const int64_t stream = kTokens * kHiddenSize * 4;
  const int64_t all = bytes(kept, MemoryTag::saved);
  const int64_t one = bytes(run_of(layers("uniform", 1)), MemoryTag::saved);
  const int64_t two = bytes(run_of(layers("uniform", 2)), MemoryTag::saved);
  EXPECT_LT(2 * one, all);
  // Of eight layers two are live instead of one, and four fewer inputs of groups are kept; one more
  // layer is what block recompute keeps of each.
  const int64_t seven = bytes(run_of(layers("block", 7)), MemoryTag::saved);
  const int64_t six = bytes(run_of(layers("block", 6)), MemoryTag::saved);
  const int64_t layer = six - seven;
  EXPECT_GT(layer, 5 * stream);
  EXPECT_EQ(two - one, layer + stream - kLayers / 2 * stream);
  EXPECT_LT(run_of(layers("uniform", 1)).peak.bytes, kept.peak.bytes);
}

TEST(RecomputeMemory, MoreOperationsRunAndTheModelHasAsMany) {
  const DryRun kept = run_of({}), again = run_of(layers("uniform", 1));
  EXPECT_EQ(again.model_flops, kept.model_flops);
  EXPECT_GT(again.cost.total_flops(), 1.2 * kept.cost.total_flops());
  EXPECT_LT(again.cost.total_flops(), 4.0 / 3 * kept.cost.total_flops());
  const DryRun units = run_of(
      {"model.recompute_granularity=selective", "model.recompute_modules=[core_attn, layernorm]"});
  EXPECT_GT(units.cost.total_flops(), kept.cost.total_flops());
  EXPECT_LT(units.cost.total_flops(), again.cost.total_flops());
  EXPECT_LT(bytes(units, MemoryTag::saved), bytes(kept, MemoryTag::saved));
}

// A group's output, which nobody reads, is not computed again: for the last feed-forward the second
// product and the sum with the stream; for segments that are recomputed apart also the projection.
TEST(RecomputeMemory, NobodyMakesTheOutputOfWhatRunsAgain) {
  constexpr int64_t kFeedForward = 64, kStepTokens = 128;
  const auto flops = [](const Overrides& more) { return run_of(more).cost.total_flops(); };
  const double one = flops(layers("uniform", 1)), two = flops(layers("uniform", 2)),
               apart =
                   flops(layers("uniform", 1) + Overrides{"model.recompute_segments_apart=true"});
  const double down = kStepTokens * kHiddenSize * (2 * kFeedForward + 1),
               projection = kStepTokens * kHiddenSize * (2 * kHiddenSize + 1);
  EXPECT_EQ(two - one, kLayers / 2 * down);
  EXPECT_EQ(one - apart, kLayers * projection);
}

// A layer with experts and a gated shared expert.
TEST(RecomputeMemory, ModulesOfExpertsDropTheirOwn) {
  constexpr int64_t kRows = 2 * kTokens, kFeedForward = 64, kShared = 48, kAway = kLayers - 1;
  const Overrides experts{"model.family=qwen2_moe", "model.num_moe_experts=4",
                          "model.moe_router_topk=2", "model.moe_ffn_hidden_size=64",
                          "model.moe_shared_expert_intermediate_size=48"};
  const auto saved = [&](const std::string& modules) {
    return bytes(run_of(experts + Overrides{"model.recompute_granularity=selective",
                                            "model.recompute_modules=[" + modules + "]"}),
                 MemoryTag::saved);
  };
  const int64_t kept = saved("");
  // In FP32; at the peak the last layer's values exist again.
  const auto dropped = [&](const std::string& modules) { return (kept - saved(modules)) / 4; };
  const int64_t activated = kRows * kFeedForward,
                inside =
                    kTokens * (3 * kShared + kHiddenSize);  // the result that the gate multiplies
  EXPECT_EQ(dropped("moe_act"), kAway * activated);
  EXPECT_EQ(dropped("mlp"), kAway * 3 * activated);
  EXPECT_EQ(dropped("shared_experts"), kAway * inside);
  EXPECT_EQ(dropped("moe_act, shared_experts"), kAway * (activated + inside));
  // The rows of experts, and the norm's output.
  EXPECT_GT(dropped("moe"),
            kAway * (3 * activated + inside + kRows * kHiddenSize + kTokens * kHiddenSize));
}

// One more expert of each token is one more row in each layer: what experts read and make of it,
// but not their result.
TEST(RecomputeMemory, ExpertsKeepNoResults) {
  constexpr int64_t kFeedForward = 64;
  const auto saved = [](const std::string& topk, int64_t layers) {
    return bytes(run_of({"model.family=mixtral", "model.num_moe_experts=4",
                         "model.num_layers=" + std::to_string(layers),
                         "model.moe_router_topk=" + topk, "model.moe_ffn_hidden_size=64"}),
                 MemoryTag::saved);
  };
  const auto more = [&](int64_t layers) { return saved("3", layers) - saved("2", layers); };
  // Of each row its choice, place and weight.
  const int64_t of_row = 4 * (kHiddenSize + 3 * kFeedForward + 3);
  EXPECT_EQ(more(kLayers) - more(kLayers - 1), kTokens * of_row);
}

}  // namespace
}  // namespace viaduct
