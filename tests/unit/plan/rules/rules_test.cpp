// Every rule on handmade figures, and how predicted changes decide.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "config/load.h"
#include "plan/rules/evaluate.h"
#include "plan/rules/markdown.h"
#include "support/english.h"
#include "support/guide_rule_cases.h"
#include "support/paths.h"

namespace viaduct::rules {
namespace {

using test::dense;
using test::RuleCase;
using testing::HasSubstr;

Rule rule_of(const std::string& id) {
  for (const RuleGroup& group : rule_groups())
    for (const Rule& rule : group.rules)
      if (rule.id == id) return rule;
  ADD_FAILURE() << "no rule " << id;
  return {};
}

Finding found(const RuleCase& one, const Thresholds& limits = {}) {
  Figures f = dense();
  one.change(f);
  return rule_of(one.id).check(f, limits);
}

/// Rules that never fire in a plan, and say why: they hold by construction, or need measurements.
const std::map<std::string, Outcome> kUndecided{{"moe-grouped-gemm-off", Outcome::not_applicable},
                                                {"fsdp-legal", Outcome::not_applicable},
                                                {"norm-sm-margin", Outcome::not_applicable},
                                                {"tp-overlap-static", Outcome::not_applicable},
                                                {"tp-overlap-launch-order", Outcome::unknown},
                                                {"cp-a2a-heads", Outcome::not_applicable},
                                                {"fp8-shapes", Outcome::not_applicable},
                                                {"graph-static", Outcome::not_applicable},
                                                {"gc-aligned", Outcome::not_applicable},
                                                {"vboost", Outcome::unknown},
                                                {"nccl-memory", Outcome::unknown},
                                                {"scale-cost", Outcome::not_applicable},
                                                {"record-incomplete", Outcome::unknown}};
/// Rules without a condition on figures: they depend on the prediction of a change, or always
/// apply.
const std::set<std::string> kWithoutBorder{"scale-efficiency", "memory-itemised"};

TEST(GuideRules, EachHasCasesOrSaysWhyNot) {
  std::map<std::string, std::set<RuleCase::Kind>> kinds;
  for (const RuleCase& one : test::rule_cases()) kinds[one.id].insert(one.kind);
  std::set<std::string> ids;
  for (const RuleGroup& group : rule_groups()) {
    for (const Rule& rule : group.rules) {
      const std::string id(rule.id);
      EXPECT_TRUE(ids.insert(id).second) << id << " occurs twice";
      EXPECT_FALSE(rule.condition.empty() || rule.says.empty() || rule.source.empty()) << id;
      EXPECT_EQ(rule.settled.empty(), !kUndecided.contains(id)) << id << " fires, or says why not";
      if (kUndecided.contains(id) || kWithoutBorder.contains(id)) {
        EXPECT_FALSE(kinds.contains(id)) << id;
      } else {
        EXPECT_EQ(kinds[id].size(), 3u) << id;
      }
    }
  }
  for (const auto& [id, all] : kinds) EXPECT_TRUE(ids.contains(id)) << id;
}

TEST(GuideRules, ConditionsHoldWhereTheyShould) {
  for (const RuleCase& one : test::rule_cases()) {
    const Finding finding = found(one);
    EXPECT_EQ(outcome_name(finding.outcome), outcome_name(one.outcome))
        << one.id << ", case " << one.kind << ": " << finding.text;
    EXPECT_FALSE(finding.text.empty()) << one.id;
    EXPECT_THAT(finding.text, testing::Not(HasSubstr("nan"))) << one.id;
  }
}

TEST(GuideRules, WhatAPlanCannotDecideIsSaid) {
  for (const auto& [id, outcome] : kUndecided) {
    Figures f = dense();
    test::set_sizes(f, 2, 2);
    test::add_experts(f);
    f.fp8 = true;
    f.config.tensor_overlap.tp_comm_overlap = true;
    f.config.checkpoint.pretrained_checkpoint = "folder";
    f.config.dataset.reset_attention_mask = true;
    for (const char* axis : {"dp", "ep", "tp"}) f.times->exposed[axis] = 0.2;
    f.times->host = 0.2;
    const Finding finding = rule_of(id).check(f, {});
    EXPECT_EQ(outcome_name(finding.outcome), outcome_name(outcome)) << id;
    EXPECT_GT(finding.text.size(), 10u) << id;
  }
}

TEST(GuideRules, PackingNeedsTheLengthsOfConversations) {
  Figures f = dense();
  f.config.dataset.packing.conversations = true;
  for (const char* id : {"pack-off", "pack-straggler"}) {
    const Finding finding = rule_of(id).check(f, {});
    EXPECT_EQ(finding.outcome, Outcome::unknown) << id;
    EXPECT_THAT(finding.text, testing::HasSubstr("the lengths of")) << id;
  }
}

// Ranks that an encoder gives up make stages of the decoder, or data ranks; those that it takes
// come from there.
TEST(GuideRules, RanksOfAnEncoderAreThoseOfTheDecoder) {
  const auto advice = [](int own, int tensor, double share = 0.1) {
    Figures f = dense();
    test::set_sizes(f, 2, 1, 3);
    f.model.layers = 32, f.model.encoder.layers = 4;
    f.config.parallel.encoder_pipeline_model_parallel_size = own;
    f.config.parallel.encoder_tensor_model_parallel_size = tensor;
    f.times->stage_compute = std::vector<double>(static_cast<size_t>(own), share);
    f.times->stage_compute.insert(f.times->stage_compute.end(), {1, 1, 1});
    std::vector<std::string> texts;
    for (const Advice& one : rule_of("encoder-layout").check(f, {}).advice)
      texts.push_back(fmt::format("{}", fmt::join(one.overrides, " ")));
    return texts;
  };
  const std::string stages = "model.encoder_pipeline_model_parallel_size=",
                    tensor = "model.encoder_tensor_model_parallel_size=",
                    pp = "model.pipeline_model_parallel_size=";
  const std::string none = stages + "0 " + tensor + "0";
  EXPECT_THAT(advice(1, 2), testing::ElementsAre(none + " " + pp + "4", none));
  EXPECT_THAT(advice(2, 2), testing::ElementsAre(stages + "1 " + pp + "4", stages + "1", none));
  EXPECT_THAT(advice(1, 1), testing::ElementsAre(none));  // half a stage
  EXPECT_THAT(advice(1, 2, 2.5), testing::ElementsAre(stages + "2 " + pp + "2", stages + "2"));
  EXPECT_THAT(advice(2, 4, 2.5), testing::ElementsAre(stages + "4"));  // none would be left
  EXPECT_THAT(advice(4, 2, 2.5), testing::IsEmpty());
}

TEST(GuideRules, WhatIsSetIsNotAdvised) {
  Figures f = dense();
  f.config.dist.vboost = 1;
  const Finding finding = rule_of("vboost").check(f, {});
  EXPECT_EQ(finding.outcome, Outcome::not_applicable);
  EXPECT_THAT(finding.text, testing::HasSubstr("dist.vboost = 1 moves the slider"));
}

TEST(GuideRules, ActivationsOfAdaptersMayLeaveTheGpu) {
  Figures f = dense();
  f.micro_batches = 1, f.times->step = 2;
  f.stages = {{70e9, 5e9, 5e9, 5e9, 50e9, 0}};
  EXPECT_EQ(rule_of("offload-worth").check(f, {}).outcome, Outcome::not_applicable);
  f.config.peft.scheme = AdapterScheme::lora;
  EXPECT_EQ(rule_of("offload-worth").check(f, {}).outcome, Outcome::fires);
  // Remainders and moments are those of the adapters alone.
  f.trained_parameters = 1e6;
  f.stages.front().peak = 0.95 * f.machine->capacity_bytes;
  const Finding aware = rule_of("precision-aware").check(f, {});
  EXPECT_EQ(aware.values.size(), 2u);
  for (const Quantity& quantity : aware.values) EXPECT_LE(quantity.value, 4e6) << quantity.name;
}

TEST(GuideRules, FrozenWeightsAreNotStoredAsCodes) {
  for (const RuleCase& one : test::rule_cases()) {
    if ((one.id != "fp8-params" && one.id != "dp-fp8-gather") || one.outcome != Outcome::fires)
      continue;
    Figures f = dense();
    one.change(f);
    f.config.peft.scheme = AdapterScheme::lora;
    EXPECT_EQ(rule_of(one.id).check(f, {}).outcome, Outcome::not_applicable) << one.id;
  }
}

TEST(GuideRules, WithoutAClusterNothingIsGuessed) {
  for (const RuleCase& one : test::rule_cases()) {
    Figures f = dense();
    one.change(f);
    f.machine.reset(), f.times.reset(), f.crossings.clear();
    const Finding finding = rule_of(one.id).check(f, {});
    if (finding.outcome == Outcome::unknown) {
      EXPECT_THAT(finding.text, HasSubstr("cluster")) << one.id;
    }
  }
}

TEST(GuideRules, EveryAdviceIsAnOverride) {
  size_t read = 0;
  for (const RuleCase& one : test::rule_cases()) {
    for (const Advice& advice : found(one).advice) {
      EXPECT_FALSE(advice.overrides.empty()) << one.id;
      RunConfig config;
      Problems problems;
      read_config(run_schema(config), {{}, advice.overrides}, problems);
      EXPECT_NO_THROW(problems.throw_if_any()) << one.id << ": " << advice_text(advice);
      ++read;
    }
  }
  EXPECT_GT(read, 100u);
}

TEST(GuideRules, ThresholdsDecideAndCanBeReplaced) {
  const RuleCase host{"host-bound", RuleCase::holds, Outcome::fires,
                      [](Figures& f) { f.times->host = 0.2; }};
  Thresholds limits;
  EXPECT_EQ(found(host, limits).outcome, Outcome::fires);
  limits.set("host_high=0.25");
  EXPECT_EQ(found(host, limits).outcome, Outcome::not_applicable);
  for (const char* wrong :
       {"host_hihg=1", "host_high", "host_high=", "host_high=x", "host_high=-1"})
    EXPECT_THROW(limits.set(wrong), ConfigError) << wrong;
  try {
    limits.set("host_hihg=1");
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("nearest: host_high"));
  }
  EXPECT_DOUBLE_EQ(Thresholds().least_gain(), 0.03);  // the interval is above the least gain
}

// How predictions of changes decide about a condition that holds.

Finding of(const Evaluation& evaluation, const std::string& id) {
  for (const Verdict& verdict : evaluation.verdicts)
    if (verdict.rule.id == id) return verdict.finding;
  ADD_FAILURE() << id;
  return {};
}

Figures with_bubble() {
  Figures f = dense();
  test::set_sizes(f, 1, 1, 4);
  f.times->bubble = 0.2;
  return f;
}

Outcome with_change(const ChangedRun& run, const Figures& f, EvaluationSettings settings = {}) {
  settings.most_predictions = 1000;
  return of(evaluate_rules(f, settings, [&](const auto&, const auto&) { return run; }),
            "pp-without-vpp")
      .outcome;
}

TEST(RuleGains, AnAdviceFiresFromTheLeastGainOn) {
  EXPECT_EQ(with_change({"", 0.9, 60e9, true}, with_bubble()), Outcome::fires);
  EXPECT_EQ(with_change({"", 0.98, 60e9, true}, with_bubble()), Outcome::no_gain);
  EXPECT_EQ(with_change({"", 1.2, 60e9, true}, with_bubble()), Outcome::no_gain);
  EXPECT_EQ(with_change({"", 0.9, 90e9, false}, with_bubble()), Outcome::not_applicable);
  EXPECT_EQ(with_change({"no", 0, 0, false}, with_bubble()), Outcome::not_applicable);
  EvaluationSettings exact;
  exact.limits.set("gain_interval=0.001");
  exact.limits.set("gain_min=0.01");
  EXPECT_EQ(with_change({"", 0.98, 60e9, true}, with_bubble(), exact), Outcome::fires);
}

TEST(RuleGains, MemoryThatIsNeededCountsAsAGain) {
  Figures f = with_bubble();
  for (StageBytes& stage : f.stages) stage.peak = 90e9;
  EXPECT_EQ(with_change({"", 1.2, 70e9, true}, f), Outcome::fires);
  EXPECT_EQ(with_change({"", 0.5, 95e9, false}, f), Outcome::not_applicable);
}

TEST(RuleGains, LimitsLeaveTheRestUnknown) {
  int calls = 0;
  const PredictChange predict = [&](const auto&, const auto&) {
    ++calls;
    return ChangedRun{"", 0.5, 60e9, true};
  };
  EvaluationSettings settings;
  settings.most_predictions = 2;
  const Evaluation two = evaluate_rules(with_bubble(), settings, predict);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(two.predictions, 2);
  EXPECT_GT(two.not_predicted, 0);
  EXPECT_EQ(two.limit, "2 changes");
  bool unknown = false;
  for (const Verdict& verdict : two.verdicts) {
    if (verdict.finding.outcome == Outcome::unknown &&
        verdict.finding.text.ends_with("not predicted"))
      unknown = true;
  }
  EXPECT_TRUE(unknown);
  settings = {.most_predictions = 1000, .most_seconds = 1e-9};
  EXPECT_EQ(evaluate_rules(with_bubble(), settings, predict).predictions, 0);
}

TEST(RuleGains, APredictionThatIsGivenUpIsNotPredicted) {
  int calls = 0;
  const Evaluation evaluation =
      evaluate_rules(with_bubble(), {.most_predictions = 1000, .most_seconds = 60},
                     [&](const auto&, const Deadline& deadline) -> ChangedRun {
                       EXPECT_TRUE(deadline.is_set());
                       if (++calls == 2) fail<DeadlineError>("given up");
                       return {"", 0.5, 60e9, true};
                     });
  EXPECT_EQ(calls, 2) << "no other one begins";
  EXPECT_EQ(evaluation.predictions, 1);
  EXPECT_GT(evaluation.not_predicted, 0);
  EXPECT_EQ(evaluation.limit, "60 s");
}

TEST(RuleGains, EqualChangesArePredictedOnce) {
  std::set<std::vector<std::string>> seen;
  EvaluationSettings settings;
  settings.most_predictions = 1000, settings.most_seconds = 60;
  evaluate_rules(with_bubble(), settings,
                 [&](const std::vector<std::string>& overrides, const auto&) {
                   EXPECT_TRUE(seen.insert(overrides).second);
                   return ChangedRun{"", 0.5, 60e9, true};
                 });
  EXPECT_GT(seen.size(), 3u);
}

TEST(RuleGains, TheBestAdviceComesFirst) {
  EvaluationSettings settings;
  settings.most_predictions = 1000;
  int calls = 0;
  const auto finding = of(evaluate_rules(with_bubble(), settings,
                                         [&](const auto&, const auto&) {
                                           return ChangedRun{"", 1 - 0.05 * ++calls, 60e9, true};
                                         }),
                          "pp-without-vpp");
  ASSERT_GE(finding.advice.size(), 2u);
  EXPECT_LT(*finding.advice[0].step_change, *finding.advice[1].step_change);
  EXPECT_THAT(advice_text(finding.advice[0]), HasSubstr("step -"));
}

TEST(RuleGains, TwiceTheGpusAndUnshardedWeightsAreCompared) {
  Figures f = dense();
  f.fully_sharded = true;
  const auto outcome = [&](const ChangedRun& run, const char* id) {
    EvaluationSettings settings;
    settings.most_predictions = 1000;
    return of(evaluate_rules(f, settings, [&](const auto&, const auto&) { return run; }), id)
        .outcome;
  };
  EXPECT_EQ(outcome({"", 1.2, 60e9, true}, "scale-efficiency"), Outcome::fires);
  EXPECT_EQ(outcome({"", 1.05, 60e9, true}, "scale-efficiency"), Outcome::not_applicable);
  EXPECT_EQ(outcome({"", 1, 50e9, true}, "fsdp-buffers"), Outcome::fires);
  EXPECT_EQ(outcome({"", 1, 70e9, true}, "fsdp-buffers"), Outcome::not_applicable);
}

TEST(GuideRules, OneOfAThingIsNotMany) {
  for (const RuleCase& one : test::rule_cases())
    EXPECT_EQ(viaduct::test::one_called_many(found(one).text), "") << one.id;
  Figures f = dense();
  f.config.fusion.bias_dropout_fusion = false;
  EXPECT_THAT(rule_of("fusion-off").check(f, {}).text, HasSubstr("1 fusion is off: "));
  test::add_experts(f);
  f.model.moe.experts = f.ep;
  EXPECT_THAT(rule_of("moe-grouped-gemm-off").check(f, {}).text, HasSubstr("rank's 1 expert are"));
}

TEST(GuideScenarios, EachConfigurationIsTakenAndHasAClaim) {
  const auto folder = viaduct::test::source_folder() / "configs/guides";
  const std::string claims = read_file(folder / "claims.csv");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    EXPECT_NO_THROW(prepare_run(load_run_config(entry.path(), {}))) << entry.path();
    EXPECT_THAT(claims, HasSubstr("\n" + entry.path().stem().string() + ",dgx-")) << entry.path();
  }
  EXPECT_EQ(files, 12);
}

TEST(GuideRules, ThePageIsThatOfTheTable) {
  const std::string page = read_file(viaduct::test::source_folder() / "docs/guide-rules.md");
  EXPECT_EQ(page, rules_markdown()) << "run: viaduct rules --markdown > docs/guide-rules.md";
}

}  // namespace
}  // namespace viaduct::rules
