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
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

const Overrides kExperts{"model.num_moe_experts=4", "model.moe_router_topk=2",
                         "model.moe_ffn_hidden_size=32", "peft.scheme=lora", "peft.dim=4"};

TEST(AdapterRules, DropoutOfExpertsIsNothingForPeft) {
  const auto notes = [](const Overrides& more) {
    return setup_of(tiny_run("qwen3_moe") + kExperts + Overrides{"peft.dropout=0.1"} + more).notes;
  };
  const auto said = HasSubstr("which PEFT does not have");
  EXPECT_THAT(notes({}), Contains(said));
  EXPECT_THAT(notes({"peft.exclude_modules=['*.experts.*']"}), Not(Contains(said)));
  EXPECT_THAT(notes({"train.skip_train=true"}), Not(Contains(said)));
}

TEST(AdapterRules, WhereDropoutIs) {
  const auto setup = [](const Overrides& more) {
    return setup_of(tiny_run() + Overrides{"peft.dim=4", "peft.dropout_position=post"} + more);
  };
  EXPECT_TRUE(setup({"peft.scheme=lora", "peft.dropout=0.1"}).config.peft.resolved.dropout_after);
  EXPECT_THAT(setup({"peft.scheme=lora"}).notes,
              Contains(HasSubstr("peft.dropout_position has no effect here: nothing is dropped")));
  EXPECT_THAT(
      [&] {
        setup({"peft.scheme=dora", "peft.dropout=0.1"});
      },
      ThrowsMessage<ConfigError>(HasSubstr("peft.dropout_position: post with dora")));
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
