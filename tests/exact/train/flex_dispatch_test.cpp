// An exchange that reads and writes rows by number has the bits of one with sorted copies.

#include <gtest/gtest.h>

#include "support/stream_run.h"

namespace viaduct {
namespace {

using namespace test;

struct FlexDispatchCase {
  std::string name;
  Overrides layout;
};
void PrintTo(const FlexDispatchCase& c, std::ostream* out) {
  *out << c.name;
}

class FlexDispatch : public testing::TestWithParam<FlexDispatchCase> {};

TEST_P(FlexDispatch, HasTheBitsOfAllToAll) {
  StreamRun run{.layout = Overrides{"model.family=qwen2_moe", "model.num_moe_experts=4",
                                    "model.moe_shared_expert_intermediate_size=32",
                                    "model.expert_model_parallel_size=2"} +
                          GetParam().layout};
  const StreamOutcome sorted = train_on_streams(run, std::nullopt);
  run.layout.push_back("model.moe_token_dispatcher_type=flex");
  const StreamOutcome fused = train_on_streams(run, std::nullopt);
  ASSERT_FALSE(sorted.states.empty());
  for (size_t rank = 0; rank < sorted.states.size(); ++rank)
    EXPECT_TRUE(fused.states[rank] == sorted.states[rank]) << "rank " << rank;
}

const std::string kTwo = "dist.ranks=2", kFour = "dist.ranks=4";

INSTANTIATE_TEST_SUITE_P(
    Layouts, FlexDispatch,
    testing::Values(
        FlexDispatchCase{"data", {kTwo}},
        FlexDispatchCase{"bf16", {kTwo, "mixed_precision=bf16_mixed"}},
        FlexDispatchCase{
            "tensor",
            {kTwo, "model.tensor_model_parallel_size=2", "model.expert_tensor_parallel_size=1"}},
        FlexDispatchCase{
            "context_cut_experts",
            {kFour, "model.context_parallel_size=2", "model.expert_tensor_parallel_size=2"}},
        FlexDispatchCase{"beside_shared", {kTwo, "model.moe_shared_expert_overlap=true"}},
        FlexDispatchCase{"capacity", {kTwo, "model.moe_expert_capacity_factor=0.75"}},
        FlexDispatchCase{"padded",
                         {kTwo, "model.moe_expert_capacity_factor=0.75",
                          "model.moe_pad_expert_input_to_capacity=true"}},
        FlexDispatchCase{"recompute",
                         {kTwo, "model.recompute_granularity=full",
                          "model.recompute_method=uniform", "model.recompute_num_layers=1"}},
        FlexDispatchCase{
            "zero_bubble",
            {kFour, "train.global_batch_size=8", "model.pipeline_model_parallel_size=2",
             "model.pipeline_schedule=zero_bubble"}}),
    [](const auto& info) { return info.param.name; });

// A shared expert beside an exchange by domain.
TEST(FlexDispatchByDomain, BesideTheExchangeASharedExpertHasTheSameBits) {
  StreamRun run{.layout = {"model.family=qwen2_moe", "model.num_moe_experts=4", kFour,
                           "model.moe_shared_expert_intermediate_size=32",
                           "model.expert_model_parallel_size=4",
                           "model.moe_token_dispatcher_type=flex", "dist.nvlink_domain_size=2"}};
  const StreamOutcome in_turn = train_on_streams(run, std::nullopt);
  run.layout.push_back("model.moe_shared_expert_overlap=true");
  EXPECT_TRUE(train_on_streams(run, std::nullopt).states == in_turn.states);
}

}  // namespace
}  // namespace viaduct
