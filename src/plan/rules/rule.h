#pragma once
// A recommendation of the tuning guides as a condition on the figures of a run, with its text.

#include <string_view>
#include <vector>

#include "plan/rules/figures.h"
#include "plan/rules/finding.h"
#include "plan/rules/thresholds.h"

namespace viaduct::rules {

/// When the figures of a rule exist: in a prediction, on the machine, in a measured run.
enum When : unsigned { kPlan = 1, kStart = 2, kRun = 4 };

struct Rule {
  std::string_view id;
  unsigned when = kPlan;
  std::string_view condition;  // with the level that it has
  std::string_view says;       // the advice, and where a guide is wrong or vague
  std::string_view evidence;   // from public measurements; empty: none isolates the effect
  std::string_view source;
  /// A pure function. `unknown` for rules that need the machine or a measured run.
  Finding (*check)(const Figures&, const Thresholds&) = nullptr;
  /// Of a rule that no figures make fire: why what it asks for holds by construction, or who can
  /// tell. Empty: figures decide.
  std::string_view settled = {};
};

struct RuleGroup {
  std::string_view name;
  std::vector<Rule> rules;
};

// One file a group.
RuleGroup mapping_rules();
RuleGroup pipeline_rules();
RuleGroup expert_rules();
RuleGroup sharding_rules();
RuleGroup data_overlap_rules();
RuleGroup model_overlap_rules();
RuleGroup precision_rules();
RuleGroup host_rules();
RuleGroup memory_rules();
RuleGroup fusion_rules();
RuleGroup sequence_rules();
RuleGroup scaling_rules();
RuleGroup sanity_rules();

/// All groups, in the order of the documentation. Ids are unique.
std::vector<RuleGroup> rule_groups();

}  // namespace viaduct::rules
