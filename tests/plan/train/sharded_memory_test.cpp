// The effect of sharded gradients and weights on memory and messages, read from the record of a dry
// run: at no event are more units whole than planned.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "device/memory_tag.h"
#include "engine/dry_run.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/gemm.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

constexpr int64_t kBlocks = 6, kMicroBatches = 3;

Overrides run_of(const Overrides& more) {
  return tiny_run() +
         Overrides{"model.num_layers=6", "train.global_batch_size=6", "train.micro_batch_size=1",
                   "dist.ranks=2"} +
         more;
}

Overrides strategy(const std::string& name) {
  return {"ddp.data_parallel_sharding_strategy=" + name};
}

/// The step of a dry run.
struct Step {
  StepRecord record;
  DryRun run;
};
std::unique_ptr<Step> step_of(const Overrides& overrides) {
  auto step = std::make_unique<Step>();
  step->run = dry_run(setup_of(run_of(overrides)), {0}, &step->record);
  return step;
}
const SequenceWindow& window(const Step& step) {
  return step.run.windows[static_cast<size_t>(MemorySequence::step)];
}
bool within(const Step& step, int64_t at) {
  return window(step).begin <= at && at < window(step).end;
}

std::vector<CollectiveRecord> in_shards(const Step& step, const std::string& operation,
                                        const std::string& group = "dp_cp.inner") {
  std::vector<CollectiveRecord> list;
  for (const CollectiveRecord& c : step.record.collectives()) {
    if (choice_name(c.operation) == operation && c.group == group && within(step, c.launched_at))
      list.push_back(c);
  }
  return list;
}

/// The largest number of bytes of a tag that were allocated in the step and lived at once: whole
/// units in addition to the permanent shards.
int64_t most_whole(const Step& step, MemoryTag tag) {
  std::map<int64_t, int64_t> changes;
  for (const AllocationRecord& a : step.record.allocations()) {
    if (a.tag != memory_tag_name(tag) || !within(step, a.allocated_at)) continue;
    EXPECT_TRUE(within(step, a.released_at)) << "a unit stays whole after the step";
    changes[a.allocated_at] += a.bytes;
    changes[a.released_at] -= a.bytes;
  }
  int64_t live = 0, most = 0;
  for (const auto& [at, bytes] : changes) most = std::max(most, live += bytes);
  return most;
}

/// Bytes of the gathered units of a step: the count of each size.
std::map<int64_t, int64_t> gathered(const Step& step) {
  std::map<int64_t, int64_t> sizes;
  for (const CollectiveRecord& c : in_shards(step, "all_gather")) ++sizes[c.bytes];
  return sizes;
}

/// The unit of a block, recognised as the only one with six instances.
int64_t block_bytes(const Step& step) {
  const auto sizes = gathered(step);
  return std::max_element(sizes.begin(), sizes.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

TEST(ShardedMemory, EachForwardAndBackwardGathersEachUnit) {
  const auto step = step_of(strategy("optim_grads_params"));
  const auto sizes = gathered(*step);
  ASSERT_EQ(sizes.size(), 3u) << "embedding, blocks, head";
  std::vector<int64_t> counts;
  for (const auto& [bytes, count] : sizes) counts.push_back(count);
  std::sort(counts.begin(), counts.end());
  // The backward of the embedding reads no weight, and the head's follows its forward directly.
  EXPECT_EQ(counts,
            (std::vector<int64_t>{kMicroBatches, kMicroBatches, 2 * kBlocks * kMicroBatches}));
  const auto scatters = in_shards(*step, "reduce_scatter");
  EXPECT_EQ(scatters.size(), static_cast<size_t>((kBlocks + 2) * kMicroBatches));
  const auto once = step_of(strategy("optim"));
  EXPECT_EQ(in_shards(*once, "reduce_scatter").size(), 1u);
}

TEST(ShardedMemory, NoMoreThanThePlannedUnitsAreWhole) {
  const auto one = step_of(strategy("optim_grads_params") +
                           Overrides{"ddp.suggested_communication_unit_size=0"});
  int64_t largest = 0;
  for (const auto& [bytes, count] : gathered(*one)) largest = std::max(largest, bytes);
  EXPECT_EQ(most_whole(*one, MemoryTag::weights), largest);
  const int64_t block = block_bytes(*one);
  const auto ahead = [&](int64_t blocks) {
    return step_of(
        strategy("optim_grads_params") +
        Overrides{"ddp.suggested_communication_unit_size=" + std::to_string(blocks * block / 4)});
  };
  for (const int64_t blocks : {1, 2, 3}) {
    const auto step = ahead(blocks);
    EXPECT_EQ(most_whole(*step, MemoryTag::weights), std::max(largest, block) + blocks * block);
    EXPECT_EQ(gathered(*step), gathered(*one));
  }
  // One unit of gradients is being computed and one reduced, with the shard of its sum.
  EXPECT_LE(most_whole(*one, MemoryTag::main_gradients), 2 * largest + largest / 2);
  EXPECT_GE(most_whole(*one, MemoryTag::main_gradients), 2 * block);
}

TEST(ShardedMemory, RecomputedLayersAreGatheredOnceMoreAtMost) {
  for (const char* group : {"1", "2"}) {
    const auto step =
        step_of(strategy("optim_grads_params") +
                Overrides{"ddp.suggested_communication_unit_size=0",
                          "model.recompute_granularity=full", "model.recompute_method=uniform",
                          std::string("model.recompute_num_layers=") + group});
    int64_t largest = 0;
    for (const auto& [bytes, count] : gathered(*step)) largest = std::max(largest, bytes);
    EXPECT_EQ(most_whole(*step, MemoryTag::weights), largest);
    // The last layer of a group continues with its backward.
    const int64_t again = group[0] == '1' ? 0 : kBlocks / 2;
    EXPECT_EQ(gathered(*step).at(block_bytes(*step)), (2 * kBlocks + again) * kMicroBatches);
  }
}

/// The number of gathers that no op runs beside.
int64_t waited_at_once(const Step& step, const std::string& group = "dp_cp.inner") {
  int64_t count = 0;
  for (const CollectiveRecord& c : in_shards(step, "all_gather", group)) {
    const bool computed = std::any_of(
        step.record.ops().begin(), step.record.ops().end(),
        [&](const OpEntryRecord& op) { return c.launched_at < op.at && op.at < c.completed_at; });
    count += computed ? 0 : 1;
  }
  return count;
}

// Gathers run beside the segments before them: only the first of a walk has none.
TEST(ShardedMemory, UnitsAreGatheredAheadOfTheirUse) {
  const auto ahead = step_of(strategy("optim_grads_params"));
  EXPECT_EQ(waited_at_once(*ahead), kMicroBatches) << "the forward of each";
  const auto late = step_of(strategy("optim_grads_params") +
                            Overrides{"ddp.suggested_communication_unit_size=0"});
  EXPECT_EQ(waited_at_once(*late), static_cast<int64_t>(in_shards(*late, "all_gather").size()));
}

// Unless the configuration says how much is gathered ahead, the next layer is, however large.
TEST(ShardedMemory, LargeLayersAreGatheredAheadOfTheirUse) {
  const Overrides wide{"model.hidden_size=2048", "model.ffn_hidden_size=8192"};
  const auto step = step_of(strategy("optim_grads_params") + wide);
  ASSERT_GT(block_bytes(*step), 4 * 40'000'000);
  EXPECT_EQ(waited_at_once(*step), kMicroBatches);
  EXPECT_EQ(most_whole(*step, MemoryTag::weights), 2 * block_bytes(*step));
  const auto fixed = step_of(strategy("optim_grads_params") + wide +
                             Overrides{"ddp.suggested_communication_unit_size=40000000"});
  EXPECT_GT(waited_at_once(*fixed), kMicroBatches);
  EXPECT_LT(most_whole(*fixed, MemoryTag::weights), 2 * block_bytes(*fixed));
}

// A layer with experts has units of two groups of ranks.
TEST(ShardedMemory, ExpertsAreGatheredAheadOfTheirUse) {
  Step step;
  step.run = dry_run(
      setup_of(tiny_run("qwen3_moe") + strategy("optim_grads_params") +
               Overrides{"model.num_layers=6", "model.hidden_size=1024",
                         "model.moe_ffn_hidden_size=4096", "model.num_moe_experts=8",
                         "model.moe_router_topk=2", "model.expert_model_parallel_size=2",
                         "dist.ranks=4", "train.global_batch_size=12", "train.micro_batch_size=1"}),
      {0}, &step.record);
  const auto experts = in_shards(step, "all_gather", "expert_dp.inner");
  ASSERT_EQ(experts.size(), static_cast<size_t>(2 * kBlocks * kMicroBatches));
  ASSERT_GT(experts.front().bytes, 4 * 40'000'000);
  EXPECT_EQ(waited_at_once(step, "expert_dp.inner"), 0);
  EXPECT_EQ(waited_at_once(step), kMicroBatches);
  EXPECT_GE(most_whole(step, MemoryTag::weights), 2 * experts.front().bytes)
      << "beside the experts of the layer before";
}

// The head's unit stays from its forward to its backward if this follows directly: not under GPipe,
// nor in an evaluation.
TEST(ShardedMemory, TheHeadIsKeptForItsBackward) {
  const auto gathers_of_head = [](const std::string& schedule) {
    auto step = std::make_unique<Step>();
    step->run =
        dry_run(setup_of(run_of(strategy("optim_grads_params") +
                                Overrides{"dist.ranks=4", "model.pipeline_model_parallel_size=2",
                                          "model.pipeline_schedule=" + schedule,
                                          "ddp.suggested_communication_unit_size=0"})),
                {3}, &step->record);
    const auto sizes = gathered(*step);
    EXPECT_EQ(sizes.size(), 2u) << "blocks, head";
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const auto& [bytes, count] : sizes) least = std::min(least, count);
    return least;
  };
  EXPECT_EQ(gathers_of_head("1f1b"), kMicroBatches);
  EXPECT_EQ(gathers_of_head("gpipe"), 2 * kMicroBatches);
}

// tp · 2 shards of weights over four data ranks: each shard in two instances, half of it on a rank.
TEST(ShardedMemory, WeightShardsAreTheFieldsThatTheyStandFor) {
  const Overrides layout{"dist.ranks=8", "model.tensor_model_parallel_size=2",
                         "train.global_batch_size=12"};
  // Between steps: allocated before this one, freed after it.
  const auto weights = [](const Step& step) {
    int64_t bytes = 0;
    for (const AllocationRecord& a : step.record.allocations()) {
      const bool stays = a.allocated_at < window(step).begin &&
                         (a.released_at < 0 || a.released_at >= window(step).end);
      if (stays && a.tag == memory_tag_name(MemoryTag::weights)) bytes += a.bytes;
    }
    return bytes;
  };
  const auto preset = step_of(layout + Overrides{"model.tensor_parallel_num_weight_shards=4"});
  const auto by_hand = step_of(layout + strategy("optim_grads_params") +
                               Overrides{"ddp.num_distributed_optimizer_instances=2"});
  const auto whole = step_of(layout);
  EXPECT_EQ(gathered(*preset), gathered(*by_hand));
  EXPECT_EQ(weights(*preset), weights(*by_hand));
  EXPECT_EQ(preset->run.peak.bytes, by_hand->run.peak.bytes);
  const double share = static_cast<double>(weights(*preset)) / static_cast<double>(weights(*whole));
  EXPECT_NEAR(share, 0.5, 0.02) << "except for padding";
}

TEST(ShardedMemory, TwoBuffersAreMadeOnce) {
  const auto step =
      step_of(strategy("optim_grads_params") + Overrides{"ddp.fsdp_double_buffer=true"});
  const int64_t block = block_bytes(*step);
  int64_t buffers = 0;
  for (const AllocationRecord& a : step->record.allocations()) {
    if (a.tag != memory_tag_name(MemoryTag::weights) || a.bytes != block) continue;
    EXPECT_FALSE(within(*step, a.allocated_at)) << "a block has memory of its own";
    buffers += a.released_at < 0 || a.released_at >= window(*step).end ? 1 : 0;
  }
  EXPECT_EQ(buffers, 2);
}

TEST(ShardedMemory, FormsOfAWeightGoWithIt) {
  if (!reads_packed_weights(cpu_ops(best_cpu_isa()), DType::bf16))
    GTEST_SKIP() << "no products that read tiles here";
  const auto step = step_of(strategy("optim_grads_params") +
                            Overrides{"mixed_precision=bf16_mixed", "model.packed_weights=true",
                                      "ddp.suggested_communication_unit_size=0"});
  const int64_t derived = most_whole(*step, MemoryTag::derived_weights);
  EXPECT_GT(derived, 0);
  EXPECT_LT(derived, 2 * block_bytes(*step)) << "tiles are padded";
}

// Bytes of a parameter between steps, with n ranks: docs/parallelism.md.
TEST(ShardedMemory, ShardsBetweenStepsAreTheFormula) {
  for (const char* recipe : {"fp32", "bf16_mixed"}) {
    const auto held = [&](const char* name) {
      const auto step = step_of(strategy(name) + Overrides{std::string("mixed_precision=") + recipe,
                                                           "model.packed_weights=false"});
      std::map<std::string, int64_t> bytes;
      for (const AllocationRecord& a : step->record.allocations()) {
        if (a.allocated_at < window(*step).begin &&
            (a.released_at < 0 || a.released_at >= window(*step).end))
          bytes[std::string(a.tag)] += a.bytes;
      }
      return bytes;
    };
    auto optim = held("optim"), gradients = held("optim_grads"),
         weights = held("optim_grads_params");
    // Units end at multiples of 128 elements, so padding differs a little.
    const auto near = [](int64_t a, int64_t b) { EXPECT_NEAR(a, b, 0.03 * b) << a << " " << b; };
    near(2 * gradients["main_gradients"], optim["main_gradients"]);
    near(gradients["weights"], optim["weights"]);
    near(2 * weights["weights"], optim["weights"]);
    near(2 * weights["main_gradients"], optim["main_gradients"]);
    near(weights["moments"], optim["moments"]);
  }
}

}  // namespace
}  // namespace viaduct
