// Where ddp.nccl_ub registers symmetric memory, as far as the configuration decides it.

#include "run/symmetric_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace viaduct {
namespace {

using testing::HasSubstr;

RunConfig config_of(std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), "ddp.nccl_ub=true");
  return load_run_config({}, overrides).config;
}

TEST(SymmetricRegistration, IsWantedWhereMemoryIsRegistered) {
  EXPECT_TRUE(wants_symmetric_memory(config_of({})));
  EXPECT_FALSE(wants_symmetric_memory(config_of({"ddp.nccl_ub=false"})));
  const RunConfig off = config_of({"ddp.disable_symmetric_registration=true"});
  EXPECT_FALSE(wants_symmetric_memory(off));
  EXPECT_THAT(why_not_symmetric(off), HasSubstr("ddp.disable_symmetric_registration"));
}

TEST(SymmetricRegistration, NeedsSizesThatDataDoNotChange) {
  EXPECT_THAT(why_not_symmetric(config_of({"dataset.reset_attention_mask=true"})),
              HasSubstr("dataset.reset_attention_mask = true"));
  RunConfig experts = config_of({});
  experts.model.moe.num_moe_experts.resolve(int64_t{4});
  EXPECT_EQ(why_not_symmetric(experts), "") << "all experts on each rank";
  experts.parallel.expert_model_parallel_size = 2;
  EXPECT_THAT(why_not_symmetric(experts), HasSubstr("moe_pad_expert_input_to_capacity = false"));
  experts.model.moe.moe_pad_expert_input_to_capacity = true;
  EXPECT_EQ(why_not_symmetric(experts), "");
}

}  // namespace
}  // namespace viaduct
