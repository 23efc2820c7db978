// Bytes of NVFP4 weights against the closed forms that planners calculate with: state of a
// parameter, weights on the wire and the magnitudes that their scales are made of. All sizes are
// multiples of 128, so that nothing is padded.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/plan_memory.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

const Overrides kModel = tiny_run() + Overrides{"model.hidden_size=128",
                                                "model.ffn_hidden_size=256",
                                                "model.packed_weights=false",
                                                "model.num_query_groups=2",
                                                "train.train_iters=1",
                                                "train.global_batch_size=8",
                                                "mixed_precision=bf16_with_nvfp4_mixed"};
const Overrides kCodes{"mixed_precision.fp4_param_gather=true"};

/// Elements of the linear layers of two blocks: queries, keys and values, their projection, and
/// three matrices of the gated feed-forward; and how many layers these are.
constexpr int64_t kLinear = 2 * (128 * (128 + 2 * 64) + 128 * 128 + 3 * 128 * 256), kLayers = 8;

Overrides data(int ranks, const std::string& strategy) {
  return {fmt::format("dist.ranks={}", ranks), "ddp.data_parallel_sharding_strategy=" + strategy};
}

int64_t state_bytes(const Overrides& settings) {
  int64_t bytes = 0;
  for (const PlannedAllocation& held : plan_memory(setup_of(kModel + settings)).plan.resident) {
    for (const MemoryTag tag :
         {MemoryTag::weights, MemoryTag::main_gradients, MemoryTag::master_weights,
          MemoryTag::moments, MemoryTag::derived_weights})
      bytes += held.tag == tag ? held.bytes : 0;
  }
  return bytes;
}

TEST(Fp4Bytes, StateOfAParameter) {
  struct Row {
    std::string name;
    Overrides settings;
    double linear, others;  // bytes of a parameter of a linear layer inside a block, and of others
  };
  // Elements, and an E4M3 scale for 16 x 16 of them, which both products read.
  constexpr double kForm = 0.5 + 1 / 256.0;
  const Overrides aware{"optimizer.use_precision_aware_optimizer=true"};
  const Row rows[] = {
      {"BF16 weights beside their forms", data(2, "optim"), 6 + kForm + 12 / 2.0, 6 + 12 / 2.0},
      {"codes", data(2, "optim") + kCodes, 4 + kForm + 12 / 2.0, 6 + 12 / 2.0},
      {"codes, four ranks", data(4, "optim") + kCodes, 4 + kForm + 12 / 4.0, 6 + 12 / 4.0},
      // Every rank has all scales.
      {"codes in shards", data(2, "optim_grads_params") + kCodes, 16.5 / 2 + 1 / 256.0, 18 / 2.0},
      // Masters return to four bytes: codes are no upper half of them.
      {"codes, remainders of others", data(2, "optim") + kCodes + aware, 4 + kForm + 12 / 2.0,
       6 + 10 / 2.0}};
  for (const Row& row : rows) {
    const auto parameters =
        static_cast<double>(dry_run(setup_of(kModel + row.settings)).parameters);
    const auto linear = static_cast<double>(kLinear);
    EXPECT_EQ(static_cast<double>(state_bytes(row.settings)),
              row.linear * linear + row.others * (parameters - linear) + 4 * kLayers)
        << row.name;
  }
}

struct Traffic {
  int64_t bytes = 0, count = 0;
};

Traffic traffic_of(const Overrides& settings, const std::string& operation,
                   const std::string& group) {
  Traffic sum;
  for (const GroupTraffic& traffic : dry_run(setup_of(kModel + settings)).traffic) {
    if (choice_name(traffic.operation) != operation || !traffic.group.starts_with(group)) continue;
    sum.bytes += traffic.bytes;
    sum.count += traffic.count;
  }
  return sum;
}

TEST(Fp4Bytes, WeightsTravelInHalfAByteAndMagnitudesOfSquaresBesides) {
  for (const int ranks : {2, 4}) {
    const Overrides without = data(ranks, "optim"), with = without + kCodes;
    const Traffic wide = traffic_of(without, "all_gather", "dp_cp"),
                  narrow = traffic_of(with, "all_gather", "dp_cp");
    EXPECT_EQ(wide.bytes, 2 * dry_run(setup_of(kModel + without)).parameters);
    EXPECT_EQ(wide.bytes - narrow.bytes, kLinear * 3 / 2);
    const Traffic plain = traffic_of(without, "all_reduce", "dp_cp"),
                  reduced = traffic_of(with, "all_reduce", "dp_cp");
    EXPECT_EQ(reduced.bytes - plain.bytes, 4 * kLinear / 256) << "FP32, one for a square";
    EXPECT_EQ(reduced.count - plain.count, 1) << "one message for all weights";
  }
}

// Tensor ranks find the magnitude of a whole matrix, once a step instead of once for each layer.
TEST(Fp4Bytes, MagnitudesOfMatricesAreOneMessage) {
  const Overrides without = data(4, "optim") + Overrides{"model.tensor_model_parallel_size=2"};
  const Traffic plain = traffic_of(without, "all_reduce", "tp"),
                coded = traffic_of(without + kCodes, "all_reduce", "tp");
  EXPECT_EQ(plain.count - coded.count, kLayers - 1);
  EXPECT_EQ(plain.bytes, coded.bytes);
}

TEST(Fp4Bytes, ShardsAreGatheredAsCodes) {
  const Overrides without = data(2, "optim_grads_params");
  const int64_t saved = traffic_of(without, "all_gather", "dp_cp").bytes -
                        traffic_of(without + kCodes, "all_gather", "dp_cp").bytes;
  // A block is gathered for the forward and the backward of each micro-batch.
  EXPECT_EQ(saved % (kLinear * 3 / 2), 0);
  EXPECT_GE(saved, 2 * (kLinear * 3 / 2));
}

// 1792 elements in 256 shards would be seven each: the buffer is padded to eight.
TEST(Fp4Bytes, ShardsOfManyRanksAreWholeBytes) {
  const RunSetup setup =
      setup_of(kModel + kCodes + data(256, "optim") +
               Overrides{"model.num_layers=1", "model.hidden_size=16", "model.ffn_hidden_size=16",
                         "model.num_attention_heads=2", "train.global_batch_size=512"});
  EXPECT_GT(dry_run(setup).parameters, 1792);
}

// On the expert grid, too: two experts of four on each of two data ranks of experts.
TEST(Fp4Bytes, WeightsOfExperts) {
  const Overrides experts =
      Overrides{"model.family=mixtral", "model.num_moe_experts=4", "model.moe_router_topk=2",
                "model.ffn_hidden_size=128", "model.expert_model_parallel_size=2"} +
      data(4, "optim");
  constexpr int64_t kHere = 2 * 2 * 3 * 128 * 128;  // elements of experts on a rank
  EXPECT_EQ(traffic_of(experts, "all_gather", "expert_dp").bytes, 2 * kHere);
  EXPECT_EQ(traffic_of(experts + kCodes, "all_gather", "expert_dp").bytes, kHere / 2);
  EXPECT_EQ(traffic_of(experts + kCodes, "all_reduce", "expert_dp").bytes -
                traffic_of(experts, "all_reduce", "expert_dp").bytes,
            4 * kHere / 256);
}

}  // namespace
}  // namespace viaduct
