// Bytes of FP8 recipes compared with the closed forms that planners use: state of a parameter,
// weights and partial sums in messages. All sizes are multiples of 128, so that nothing is padded.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/plan_memory.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

const Overrides kModel =
    tiny_run() + Overrides{"model.hidden_size=128",      "model.ffn_hidden_size=256",
                           "model.packed_weights=false", "model.num_query_groups=2",
                           "train.train_iters=1",        "train.global_batch_size=8"};
const Overrides kDelayed{"mixed_precision=bf16_with_fp8_delayed_scaling_mixed"};
const Overrides kCurrent{"mixed_precision=bf16_mixed", "mixed_precision.fp8=hybrid"};
const Overrides kMx{"mixed_precision=bf16_with_mxfp8_mixed"};
const Overrides kCodes{"mixed_precision.fp8_param_gather=true"};
const Overrides kThroughGradients{"mixed_precision.reuse_grad_buf_for_mxfp8_param_ag=true"};

/// Elements of the linear layers of a block: queries, keys and values, their projection, and three
/// matrices of the gated feed-forward.
constexpr int64_t kLinear = 2 * (128 * (128 + 2 * 64) + 128 * 128 + 3 * 128 * 256);

Overrides data(int ranks, const std::string& strategy) {
  return {fmt::format("dist.ranks={}", ranks), "ddp.data_parallel_sharding_strategy=" + strategy};
}

int64_t bytes_of_tags(const RunSetup& setup, std::initializer_list<MemoryTag> tags) {
  int64_t bytes = 0;
  for (const PlannedAllocation& held : plan_memory(setup).plan.resident)
    for (const MemoryTag tag : tags) bytes += held.tag == tag ? held.bytes : 0;
  return bytes;
}

int64_t state_bytes(const Overrides& settings) {
  return bytes_of_tags(setup_of(kModel + settings),
                       {MemoryTag::weights, MemoryTag::main_gradients, MemoryTag::master_weights,
                        MemoryTag::moments, MemoryTag::derived_weights});
}

struct Row {
  std::string name;
  Overrides settings;
  double linear, others;  // bytes of a parameter of a linear layer inside a block, and of others
  int64_t scales = 0;     // of each linear layer
};

TEST(Fp8Bytes, StateOfAParameter) {
  const Overrides two = data(2, "optim"), four = data(4, "optim");
  const Overrides aware{"optimizer.use_precision_aware_optimizer=true"};
  const Row rows[] = {
      {"BF16 weights beside FP8 forms", kDelayed + two, 6 + 1 + 12 / 2.0, 6 + 12 / 2.0, 4},
      {"FP8 weights", kDelayed + two + kCodes, 5 + 12 / 2.0, 6 + 12 / 2.0, 4},
      {"FP8 weights, current scaling", kCurrent + four + kCodes, 5 + 12 / 4.0, 6 + 12 / 4.0, 4},
      {"FP8 weights, sharded", kDelayed + data(2, "optim_grads_params") + kCodes, 17 / 2.0,
       18 / 2.0, 4},
      // Masters have four bytes again: codes are not their upper half.
      {"FP8 weights, remainders of others", kDelayed + two + kCodes + aware, 5 + 12 / 2.0,
       6 + 10 / 2.0, 4},
      // Both orientations, with a scale for 32 elements in each.
      {"MXFP8 forms", kMx + two, 6 + 2 * (1 + 1 / 32.0) + 12 / 2.0, 6 + 12 / 2.0, 0},
      {"MXFP8 forms alone", kMx + two + kCodes + kThroughGradients,
       4 + 2 * (1 + 1 / 32.0) + 12 / 2.0, 6 + 12 / 2.0, 0}};
  for (const Row& row : rows) {
    const auto parameters =
        static_cast<double>(dry_run(setup_of(kModel + row.settings)).parameters);
    const auto linear = static_cast<double>(kLinear);
    const double expected = row.linear * linear + row.others * (parameters - linear) +
                            static_cast<double>(8 * row.scales);
    EXPECT_EQ(static_cast<double>(state_bytes(row.settings)), expected) << row.name;
  }
}

int64_t traffic_of(const Overrides& settings, const std::string& operation,
                   const std::string& group) {
  int64_t bytes = 0;
  for (const GroupTraffic& traffic : dry_run(setup_of(kModel + settings)).traffic)
    if (choice_name(traffic.operation) == operation && traffic.group.starts_with(group))
      bytes += traffic.bytes;
  return bytes;
}

TEST(Fp8Bytes, WeightsTravelInOneByte) {
  for (const Overrides& recipe : {kDelayed, kCurrent}) {
    const Overrides two = recipe + data(2, "optim");
    const int64_t wide = traffic_of(two, "all_gather", "dp_cp"),
                  narrow = traffic_of(two + kCodes, "all_gather", "dp_cp");
    EXPECT_EQ(wide, 2 * dry_run(setup_of(kModel + two)).parameters);
    EXPECT_EQ(wide - narrow, kLinear);
    const Overrides sharded = recipe + data(2, "optim_grads_params");
    const int64_t sharded_wide = traffic_of(sharded, "all_gather", "dp_cp"),
                  sharded_narrow = traffic_of(sharded + kCodes, "all_gather", "dp_cp");
    // A block is gathered for the forward and the backward of each micro-batch.
    EXPECT_EQ((sharded_wide - sharded_narrow) % kLinear, 0);
    EXPECT_GE(sharded_wide - sharded_narrow, 2 * kLinear);
  }
}

// Also on the expert grid: two of four experts on each of two data ranks.
TEST(Fp8Bytes, WeightsOfExpertsTravelInOneByte) {
  const Overrides experts{"model.family=mixtral", "model.num_moe_experts=4",
                          "model.moe_router_topk=2", "model.ffn_hidden_size=128",
                          "model.expert_model_parallel_size=2"};
  constexpr int64_t kHere = 2 * 2 * 3 * 128 * 128;  // elements of experts on a rank
  constexpr int64_t kAttention = 2 * (128 * (128 + 2 * 64) + 128 * 128);
  for (const Overrides& recipe : {kDelayed, kCurrent}) {
    const Overrides four = recipe + experts + data(4, "optim");
    EXPECT_EQ(traffic_of(four, "all_gather", "expert_dp"), 2 * kHere);
    EXPECT_EQ(traffic_of(four + kCodes, "all_gather", "expert_dp"), kHere);
    // Weights beside forms for products, or only codes; both have scales.
    EXPECT_EQ(state_bytes(four) - state_bytes(four + kCodes), 2 * (kHere + kAttention));
  }
  const Overrides mx = kMx + experts + data(4, "optim");
  EXPECT_EQ(traffic_of(mx + kCodes + kThroughGradients, "all_gather", "expert_dp"), 2 * kHere);
}

TEST(Fp8Bytes, WeightsOfMxfp8TravelInTwo) {
  const Overrides two = kMx + data(2, "optim");
  EXPECT_EQ(traffic_of(two + kCodes + kThroughGradients, "all_gather", "dp_cp"),
            2 * dry_run(setup_of(kModel + two)).parameters);
}

TEST(Fp8Bytes, OneReductionOfAllMaximaAStep) {
  const auto reductions = [&](const Overrides& recipe) {
    int64_t count = 0;
    for (const GroupTraffic& traffic :
         dry_run(setup_of(kModel + recipe + data(4, "optim") +
                          Overrides{"model.tensor_model_parallel_size=2"}))
             .traffic)
      if (traffic.operation == Collective::all_reduce) count += traffic.count;
    return count;
  };
  const int64_t plain = reductions({"mixed_precision=bf16_mixed"});
  EXPECT_EQ(reductions(kDelayed), plain + 2) << "tensor ranks, then data ranks";
  // x and dy of eight layers in four micro-batches, over two axes, and their weights once.
  EXPECT_GT(reductions(kCurrent), plain + 8 * 4);
  // Within a rank: only gathered rows, x of four layers and dy of the other four.
  const Overrides local = kCurrent + Overrides{"mixed_precision.fp8_local_amax=true"};
  EXPECT_EQ(reductions(local), plain + 8 * 2);
  const Overrides whole{"model.sequence_parallel=false"};
  EXPECT_EQ(reductions(local + whole), reductions(Overrides{"mixed_precision=bf16_mixed"} + whole));
}

const Overrides kAttention{"mixed_precision.fp8_dot_product_attention=true"};
const Overrides kAttended = kAttention + Overrides{"mixed_precision.fp8_multi_head_attention=true"};

// Keys and values in the ring, in the gather of all, and in the exchange of heads.
TEST(Fp8Bytes, ContextRanksSendFp8) {
  const Overrides two{"dist.ranks=2", "model.context_parallel_size=2"};
  const auto sent = [&](const std::string& exchange, const std::string& operation,
                        const Overrides& more) {
    return traffic_of(kCurrent + two + Overrides{"model.cp_comm_type=" + exchange} + more,
                      operation, "cp");
  };
  for (const auto& [exchange, operation] :
       {std::pair{"p2p", "send"}, {"all_gather", "all_gather"}, {"a2a", "all_to_all"}}) {
    const int64_t plain = sent(exchange, operation, {}),
                  heads = sent(exchange, operation, kAttention),
                  whole = sent(exchange, operation, kAttended);
    EXPECT_GT(plain, 0) << exchange;
    EXPECT_LT(heads, plain) << exchange;
    if (std::string_view(exchange) == "all_gather") {
      EXPECT_EQ(2 * heads, plain);
      EXPECT_EQ(whole, heads);
    }
    if (std::string_view(exchange) == "a2a") {
      EXPECT_LT(whole, heads);
    }
  }
}

TEST(Fp8Bytes, PartsOfSumsTravelInOneByteAndTheirScales) {
  const Overrides tp = kDelayed + Overrides{"dist.ranks=2", "model.tensor_model_parallel_size=2",
                                            "comm_overlap.num_splits=2"};
  const Overrides buffers{"comm_overlap.fp8_buf=true"};
  const int64_t reduced = traffic_of(tp, "reduce_scatter", "tp"),
                left = traffic_of(tp + buffers, "reduce_scatter", "tp"),
                exchanged = traffic_of(tp + buffers, "all_to_all", "tp");
  EXPECT_EQ(traffic_of(tp, "all_to_all", "tp"), 0);
  EXPECT_GT(reduced, left) << "input gradients and the embedding stay";
  EXPECT_EQ(static_cast<double>(exchanged),
            static_cast<double>(reduced - left) / 2 * (1 + 4 / 64.0));
}

}  // namespace
}  // namespace viaduct
