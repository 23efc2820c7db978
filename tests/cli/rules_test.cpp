// viaduct rules, and the rules in the output of plans and dry runs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/json.h"
#include "support/command.h"

namespace viaduct {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kModel =
    "dataset.mock=true model.family=llama model.num_layers=4 model.hidden_size=1024 "
    "model.num_attention_heads=8 model.vocab_size=512 model.seq_length=1024 "
    "model.packed_weights=false train.global_batch_size=32 train.micro_batch_size=1 dist.ranks=8 ";

json rule_of(const json& document, const std::string& id) {
  const json& list = document["guide_rules"]["rules"];
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const json& rule) { return rule["id"] == id; });
  if (found != list.end()) return *found;
  ADD_FAILURE() << id;
  return {};
}

json planned(const std::string& arguments) {
  const auto run =
      test::run_viaduct("plan --cluster dgx-h100 --json --rule-seconds 60 " + kModel + arguments);
  EXPECT_EQ(run.status, 0) << run.err;
  return json::parse(run.out);
}

double quantity(const json& rule, const std::string& name) {
  for (const json& value : rule["values"])
    if (value["name"] == name) return value["value"];
  ADD_FAILURE() << rule["id"] << " has no " << name;
  return 0;
}

TEST(Rules, AreListedAndDescribed) {
  const auto one = test::run_viaduct("rules tp-too-large");
  EXPECT_EQ(one.status, 0);
  EXPECT_THAT(one.out,
              AllOf(HasSubstr("condition"), HasSubstr("advice"), HasSubstr("guides, mapping")));
  const json all = json::parse(test::run_viaduct("rules --json").out);
  EXPECT_GT(all["rules"].size(), 90u);
  EXPECT_FALSE(all["thresholds"].empty());
  const auto wrong = test::run_viaduct("rules tp-to-large");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("tp-too-large"));
}

TEST(Rules, AnAdviceThatIsTakenAnswersItsRule) {
  // A rule, settings for which its condition holds, and the figure that the advice changes.
  struct Case {
    const char *id, *given, *figure;
  };
  for (const Case& one :
       {Case{"dist-opt-off", "ddp.use_distributed_optimizer=false", "optimizer"},
        Case{"sp-off", "model.tensor_model_parallel_size=2 model.sequence_parallel=false",
             "of a stage"},
        Case{"ce-unfused", "model.cross_entropy_loss_fusion=false", "composed"},
        Case{"attention-unfused", "model.attention_backend=unfused", "scores"}}) {
    const json before = planned(one.given), rule = rule_of(before, one.id);
    ASSERT_EQ(rule["outcome"], "fires") << one.id << ": " << rule["text"];
    EXPECT_GT(quantity(rule, one.figure), 0) << one.id;
    std::string advice;
    for (const json& field : rule["advice"][0]["overrides"])
      advice += " " + field.get<std::string>();
    const json after = planned(one.given + advice);
    EXPECT_EQ(rule_of(after, one.id)["outcome"], "not_applicable") << one.id;
    EXPECT_LE(after["predicted"]["peak_memory_bytes"][0],
              before["predicted"]["peak_memory_bytes"][0])
        << one.id;
    // The figures of the rule's advice equal those of the changed run.
    const json& said = rule["advice"][0];
    ASSERT_TRUE(said["predicted"]) << one.id;
    EXPECT_EQ(said["step_seconds"], after["predicted"]["step_seconds"]) << one.id;
  }
}

TEST(Rules, PlansShowThoseThatFireAndAllWithVerbose) {
  const std::string plan = "plan --cluster dgx-h100 --rule-seconds 1e-9 " + kModel;
  const auto few = test::run_viaduct(plan);
  ASSERT_EQ(few.status, 0) << few.err;
  EXPECT_THAT(few.out, AllOf(HasSubstr("rules of the tuning guides:"), HasSubstr("memory-itemised"),
                             HasSubstr("0 changes predicted"), Not(HasSubstr("vboost"))));
  EXPECT_THAT(test::run_viaduct(plan + "--verbose").out,
              AllOf(HasSubstr("vboost (unknown)"), HasSubstr("not predicted")));
  const auto wrong = test::run_viaduct(plan + "--threshold host_hgih=1");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("host_high"));
}

TEST(Rules, DryRunsSayWhatNeedsACluster) {
  const auto alone = test::run_viaduct("train --dry-run --json " + kModel);
  ASSERT_EQ(alone.status, 0) << alone.err;
  const json without = rule_of(json::parse(alone.out), "host-bound");
  EXPECT_EQ(without["outcome"], "unknown");
  EXPECT_THAT(without["text"].get<std::string>(), HasSubstr("--cluster"));
  const auto with =
      test::run_viaduct("train --dry-run --json --cluster dgx-h100 --rule-seconds 1e-9 " + kModel);
  ASSERT_EQ(with.status, 0) << with.err;
  const json document = json::parse(with.out);
  EXPECT_NE(rule_of(document, "host-bound")["outcome"], "unknown");
  EXPECT_EQ(document["target"], "cuda:sm_90a");
  EXPECT_EQ(test::run_viaduct("train --cluster dgx-h100 " + kModel).status, 2);  // not a dry run
}

TEST(Rules, ExplainWalksToALayoutThatFits) {
  const auto run = test::run_viaduct("plan --explain --json --cluster dgx-h100 " + kModel);
  ASSERT_EQ(run.status, 0) << run.err;
  const json path = json::parse(run.out);
  EXPECT_TRUE(path["fits"]);
  EXPECT_EQ(path["steps"].size(), 8u);
  EXPECT_THAT(path["overrides"][0].get<std::string>(), "model.tensor_model_parallel_size=1");
  // Twenty times the width: data parallelism alone is not enough.
  const auto large = test::run_viaduct(
      "plan --explain --cluster dgx-h100 --model llama3-70b --ranks 64 --global-batch 64 "
      "--seq-length 2048");
  ASSERT_EQ(large.status, 0) << large.err;
  EXPECT_THAT(large.out, AllOf(HasSubstr("too much"), HasSubstr("tp 4:"), HasSubstr("layout: tp")));
}

}  // namespace
}  // namespace viaduct
