// Patterns over names of parameters: what they match, and errors for patterns without a match.

#include "sharding/name_patterns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

TEST(NamePatterns, FitPathsAndHuggingFaceNames) {
  Parameter p;
  p.path = "blocks.3.attention.qkv.weight";
  p.parts = {whole_part("model.layers.3.self_attn.q_proj.weight", {8, 8}),
             whole_part("model.layers.3.self_attn.k_proj.weight", {8, 8})};
  for (const char* good : {"all", "*", "blocks.*.qkv.weight", "*k_proj*", "blocks.?.attention.*",
                           "model.layers.[23].*", "blocks.3.attention.qkv.weight"})
    EXPECT_TRUE(name_fits(good, p)) << good;
  for (const char* bad : {"", "blocks", "*v_proj*", "blocks.4.*", "all.*", "ALL"})
    EXPECT_FALSE(name_fits(bad, p)) << bad;
  EXPECT_TRUE(any_fits({"x", "*qkv*"}, p));
  EXPECT_FALSE(any_fits({}, p));
}

TEST(NamePatterns, OneThatFitsNoParameterIsSaid) {
  const auto with = [](const std::string& patterns) {
    return tiny_run() +
           Overrides{"mixed_precision=bf16_mixed", "ddp.grad_reduce_in_fp32=false",
                     "ddp.param_name_patterns_for_fp32_local_accumulation=" + patterns};
  };
  EXPECT_NO_THROW(setup_of(with("[blocks.*.mlp.*,'*lm_head*']")));
  EXPECT_THAT([&] { setup_of(with("[blocks.*.mlp.*,blocks.7.*,lm_haed]")); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("blocks.7.* matches no parameter"),
                                               HasSubstr("lm_haed matches no parameter"),
                                               Not(HasSubstr("mlp.* matches")))));
}

}  // namespace
}  // namespace viaduct
