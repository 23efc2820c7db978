#include "rule_report.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/json.h"
#include "base/units.h"
#include "number_checks.h"
#include "plan/rules/markdown.h"

namespace viaduct::cli {
namespace {

// A changed run takes as long to predict as the run itself. Where that is quick, the usual time is
// enough for most changes; where it is not, few would be predicted, and the whole command ends
// within two seconds instead (the rest of them is for what is given up, and for printing), so that
// an answer comes at once.
constexpr double kQuickSeconds = 0.5, kCommandSeconds = 1.7, kLeastSeconds = 0.25;

using Json = nlohmann::ordered_json;

void print_verdict(const rules::Verdict& verdict, bool verbose) {
  const rules::Finding& finding = verdict.finding;
  const bool level =
      finding.outcome == rules::Outcome::fires || finding.outcome == rules::Outcome::no_gain;
  fmt::print("{:<5} {}{}: {}\n", level ? rules::level_name(finding.level) : "-", verdict.rule.id,
             finding.outcome == rules::Outcome::fires
                 ? ""
                 : fmt::format(" ({})", rules::outcome_name(finding.outcome)),
             finding.text);
  for (const rules::Advice& advice : finding.advice) {
    if (!level) break;
    fmt::print("      {}\n", rules::advice_text(advice));
    if (!verbose) break;
  }
}

Json advice_json(const rules::Advice& advice) {
  Json json{{"overrides", advice.overrides}, {"predicted", advice.predicted}};
  if (!advice.predicted) return json;
  if (!advice.refused.empty()) {
    json["refused"] = advice.refused;
    return json;
  }
  json["step_seconds"] = advice.step_seconds;
  json["peak_memory_bytes"] = advice.peak_bytes;
  json["fits"] = advice.fits;
  json["step_change"] = advice.step_change ? Json(*advice.step_change) : Json();
  return json;
}

}  // namespace

std::vector<CLI::Option*> add_rule_options(CLI::App& app, RuleOptions& options) {
  return {
      app.add_flag("--verbose", options.verbose,
                   "All rules of the tuning guides, not only those that fire"),
      app.add_option("--threshold", options.thresholds,
                     "NAME=VALUE: replaces a threshold of the rules (viaduct rules --json)")
          ->allow_extra_args(false),
      app.add_option("--rule-seconds", options.seconds,
                     "Seconds in which changes that rules advise are predicted; default 5, after a "
                     "search 1, and where the prediction takes more than half a second what the "
                     "command has left of 2")
          ->check(positive())};
}

rules::EvaluationSettings evaluation_settings(const RuleOptions& options) {
  rules::EvaluationSettings settings;
  if (options.seconds) settings.most_seconds = *options.seconds;
  for (const std::string& text : options.thresholds) settings.limits.set(text);
  return settings;
}

double rule_seconds(const RuleOptions& options, double elapsed) {
  if (options.seconds) return *options.seconds;
  return elapsed <= kQuickSeconds ? rules::EvaluationSettings().most_seconds
                                  : std::max(kLeastSeconds, kCommandSeconds - elapsed);
}

void print_rules(const rules::Evaluation& evaluation, bool verbose) {
  fmt::print(
      "rules of the tuning guides: {} with a finding, {} without gain, {} unknown, {} do not "
      "apply; {} predicted in {:.1f} s{}\n",
      evaluation.count(rules::Outcome::fires), evaluation.count(rules::Outcome::no_gain),
      evaluation.count(rules::Outcome::unknown), evaluation.count(rules::Outcome::not_applicable),
      counted(evaluation.predictions, "change"), evaluation.seconds,
      evaluation.limit.empty()
          ? ""
          : fmt::format(", {} left out after {}{}", evaluation.not_predicted, evaluation.limit,
                        evaluation.limit.ends_with(" s") ? " (--rule-seconds gives more)" : ""));
  for (const rules::Level level :
       {rules::Level::error, rules::Level::warn, rules::Level::hint, rules::Level::note})
    for (const rules::Verdict& verdict : evaluation.verdicts)
      if (verdict.finding.outcome == rules::Outcome::fires && verdict.finding.level == level)
        print_verdict(verdict, verbose);
  if (!verbose) return;
  for (const rules::Outcome outcome :
       {rules::Outcome::no_gain, rules::Outcome::unknown, rules::Outcome::not_applicable})
    for (const rules::Verdict& verdict : evaluation.verdicts)
      if (verdict.finding.outcome == outcome) print_verdict(verdict, verbose);
}

Json rules_json(const rules::Evaluation& evaluation) {
  Json list = Json::array();
  for (const rules::Verdict& verdict : evaluation.verdicts) {
    const rules::Finding& finding = verdict.finding;
    Json values = Json::array(), advice = Json::array();
    for (const rules::Quantity& value : finding.values)
      values.push_back({{"name", value.name}, {"value", value.value}, {"unit", value.unit}});
    for (const rules::Advice& one : finding.advice) advice.push_back(advice_json(one));
    list.push_back({{"id", verdict.rule.id},
                    {"group", verdict.group},
                    {"when", rules::when_text(verdict.rule.when)},
                    {"outcome", rules::outcome_name(finding.outcome)},
                    {"level", rules::level_name(finding.level)},
                    {"text", finding.text},
                    {"values", std::move(values)},
                    {"advice", std::move(advice)},
                    {"evidence", verdict.rule.evidence},
                    {"source", verdict.rule.source}});
  }
  return {{"rules", std::move(list)},
          {"changes_predicted", evaluation.predictions},
          {"changes_left_out", evaluation.not_predicted},
          {"limit", evaluation.limit},
          {"seconds", evaluation.seconds}};
}

}  // namespace viaduct::cli
