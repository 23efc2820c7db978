// Rules about the adapters of a run that need its model.

#include <gmock/gmock.h>

#include "base/error.h"
#include "run/run_config.h"
#include "support/training.h"

namespace viaduct {
namespace {

using test::Overrides;
using test::setup_of;
using test::tiny_run;
using test::operator+;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const Overrides kExperts{"model.num_moe_experts=4", "model.moe_router_topk=2",
                         "model.moe_ffn_hidden_size=32", "peft.scheme=lora", "peft.dim=4"};

TEST(AdapterRules, ExpertsHaveNoDropout) {
  const auto setup = [](const Overrides& more) {
    return setup_of(tiny_run("qwen3_moe") + kExperts + Overrides{"peft.dropout=0.1"} + more);
  };
  EXPECT_THAT([&] { setup({}); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("peft.dropout: 0.1"), HasSubstr("peft.exclude_modules="))));
  EXPECT_EQ(setup({"peft.exclude_modules=['*.experts.*']"}).config.peft.resolved.dropout, 0.1);
}

TEST(AdapterRules, SchemesKeepTheirNames) {
  const auto scheme = [](const std::string& name) {
    return setup_of(tiny_run() + Overrides{"peft.dim=4", "peft.scheme=" + name}).config.peft.scheme;
  };
  EXPECT_EQ(scheme("dora"), "dora");
  EXPECT_EQ(scheme("canonical_lora"), "lora");
}

}  // namespace
}  // namespace viaduct
