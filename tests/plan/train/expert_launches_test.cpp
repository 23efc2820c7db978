// The ops of a layer with experts: routing is one op and one of its gradient, rows are put in order
// by one op, and products of all experts of a rank are one op, however many experts there are
// (Megatron's moe_router_fusion, moe_permute_fusion and moe_grouped_gemm, which are always on).

#include <gmock/gmock.h>

#include <map>

#include "engine/dry_run.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

/// Calls of each op by a layer with experts in a micro-batch: two more layers, without the rest.
std::map<std::string, int64_t> calls_of_layer(int experts, const Overrides& more = {}) {
  const auto calls = [&](int layers) {
    std::map<std::string, int64_t> by_op;
    const RunSetup setup = setup_of(
        tiny_run("qwen3_moe") +
        Overrides{"model.num_moe_experts=" + std::to_string(experts), "model.moe_router_topk=2",
                  "model.moe_ffn_hidden_size=16", "model.num_layers=" + std::to_string(layers),
                  "train.global_batch_size=2", "train.micro_batch_size=2"} +
        more);
    for (const KernelUse& use : dry_run(setup).kernels) by_op[use.op] += use.calls;
    return by_op;
  };
  const auto few = calls(2);
  std::map<std::string, int64_t> layer;
  for (const auto& [op, count] : calls(4))
    if (const int64_t own = (count - (few.contains(op) ? few.at(op) : 0)) / 2; own > 0)
      layer[op] = own;
  return layer;
}

TEST(ExpertLaunches, DoNotGrowWithExperts) {
  const auto few = calls_of_layer(4), many = calls_of_layer(64);
  EXPECT_EQ(few, many);
  EXPECT_EQ(few.at("route"), 1);
  EXPECT_EQ(few.at("route_backward"), 1);
  EXPECT_EQ(few.at("sort_by_expert"), 1);
  EXPECT_EQ(few.at("combine_rows"), 2) << "results, and gradients of tokens";
  EXPECT_EQ(few.at("combine_rows_backward"), 1);
  EXPECT_EQ(few.at("row_dots"), 1) << "for the gradients of weights";
  EXPECT_EQ(few.at("combine_weights_backward"), 1);
  EXPECT_EQ(few.at("grouped_gemm"), 6) << "two forward, each with two gradients";
}

TEST(ExpertLaunches, BalancingLossesAreInTheGradientOfRouting) {
  const auto plain = calls_of_layer(8);
  auto balanced = calls_of_layer(8, {"model.moe_aux_loss_coeff=0.1", "model.moe_z_loss_coeff=0.1"});
  EXPECT_EQ(balanced.at("route"), 1);
  EXPECT_EQ(balanced.at("route_backward"), 1);
  EXPECT_EQ(balanced.at("count_choices"), plain.at("count_choices") + 1);
  balanced["count_choices"] = plain.at("count_choices");
  EXPECT_EQ(balanced, plain);
}

TEST(ExpertLaunches, SettingsThatAreAlwaysOnSaySo) {
  for (const char* name : {"moe_grouped_gemm", "moe_permute_fusion", "moe_router_fusion"}) {
    const RunSetup setup = setup_of(tiny_run("qwen3_moe") +
                                    Overrides{"model.num_moe_experts=4", "model.moe_router_topk=2",
                                              std::string("model.") + name + "=true"});
    EXPECT_THAT(setup.notes, testing::Contains(testing::HasSubstr(name)));
  }
}

}  // namespace
}  // namespace viaduct
