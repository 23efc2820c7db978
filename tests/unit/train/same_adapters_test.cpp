// Two spellings of the same adapters, and adapters that differ.

#include "train/same_adapters.h"

#include <gmock/gmock.h>

#include "support/training.h"

namespace viaduct {
namespace {

using test::Overrides;
using test::setup_of;
using test::tiny_run;
using test::operator+;
using testing::IsSupersetOf;

const Overrides kAll{"peft.scheme=lora", "peft.dim=4", "peft.alpha=8"};

/// The fields of section peft that mean the same in both.
std::set<std::string> same(const Overrides& then, const Overrides& now) {
  const RunSetup run = setup_of(tiny_run() + kAll + now);
  return same_adapter_fields(setup_of(tiny_run() + kAll + then).config, run.config, run.model);
}

TEST(SameAdapters, OtherWordsMeanTheSame) {
  const std::vector<std::string> every{
      "peft.scheme", "peft.target_modules", "peft.exclude_modules", "peft.dim",        "peft.alpha",
      "peft.rslora", "peft.rank_pattern",   "peft.alpha_pattern",   "peft.base_format"};
  const auto expect_same = [&](const Overrides& then, const Overrides& now) {
    SCOPED_TRACE(testing::PrintToString(now));
    EXPECT_THAT(same(then, now), IsSupersetOf(every));
    EXPECT_THAT(same(now, then), IsSupersetOf(every));
  };
  const std::string names = "[q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj]";
  expect_same({}, {"peft.target_modules=" + names});
  expect_same({}, {"peft.target_modules=[linear_fc2,linear_fc1,linear_proj,linear_qkv]"});
  expect_same({}, {"peft.target_modules=['model.layers.*']"});
  expect_same({"peft.target_modules=[q_proj,v_proj]"}, {"peft.target_modules=[v_proj,q_proj]"});
  expect_same({"peft.exclude_modules=['*.mlp.*']"}, {"peft.target_modules=['*.self_attn.*']"});
  expect_same({}, {"peft.dim=16", "peft.alpha=2", "peft.rank_pattern={'.*': 4}",
                   "peft.alpha_pattern={'.*': 8}"});
  // alpha / √r is 2 as well.
  expect_same({}, {"peft.alpha=4", "peft.rslora=true"});
  expect_same({}, {"peft.scheme=canonical_lora"});
  const std::string bf16 = "mixed_precision=bf16_mixed";
  expect_same({bf16}, {bf16, "peft.base_format=bf16"});
}

TEST(SameAdapters, WhatDiffersIsNotTheSame) {
  const auto expect_other = [](const Overrides& now, const std::string& field) {
    SCOPED_TRACE(testing::PrintToString(now));
    EXPECT_FALSE(same({}, now).contains("peft." + field));
  };
  expect_other({"peft.target_modules=[q_proj]"}, "target_modules");
  expect_other({"peft.exclude_modules=[q_proj]"}, "exclude_modules");
  expect_other({"peft.dim=8"}, "dim");
  expect_other({"peft.rank_pattern={q_proj: 8}"}, "rank_pattern");
  expect_other({"peft.alpha=16"}, "alpha");
  // With another rank the same scale is another alpha.
  expect_other({"peft.dim=8", "peft.alpha=16"}, "alpha");
  expect_other({"peft.rslora=true"}, "rslora");
  expect_other({"peft.alpha_pattern={q_proj: 16}"}, "alpha_pattern");
  expect_other({"peft.scheme=dora"}, "scheme");
  expect_other({"peft.train=[norm]"}, "train");
  expect_other({"peft.base_format=bf16"}, "base_format");  // the recipe has FP32
  // Of layers that only one of them adapts the rank is no difference.
  EXPECT_TRUE(same({"peft.target_modules=[q_proj]"}, {}).contains("peft.dim"));
}

TEST(SameAdapters, ModulesAndDropoutTheyTrainWith) {
  EXPECT_TRUE(same({"peft.train=[norm,embed_tokens]"}, {"peft.train=[embed_tokens,model.norm]"})
                  .contains("peft.train"));
  EXPECT_TRUE(same({"peft.dropout_position=post"}, {}).contains("peft.dropout_position"));
  EXPECT_FALSE(same({"peft.dropout=0.1", "peft.dropout_position=post"}, {"peft.dropout=0.1"})
                   .contains("peft.dropout_position"));
}

/// Without adapters, or of another model, words are compared.
TEST(SameAdapters, NothingIsSaidOfOtherModels) {
  const RunSetup run = setup_of(tiny_run() + kAll);
  EXPECT_TRUE(same_adapter_fields(setup_of(tiny_run()).config, run.config, run.model).empty());
  const RunConfig gpt2 =
      setup_of(tiny_run("gpt2") + kAll + Overrides{"peft.target_modules=[c_fc]"}).config;
  EXPECT_FALSE(same_adapter_fields(gpt2, run.config, run.model).contains("peft.target_modules"));
}

}  // namespace
}  // namespace viaduct
