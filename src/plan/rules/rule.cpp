#include "plan/rules/rule.h"

namespace viaduct::rules {

std::string_view level_name(Level level) {
  switch (level) {
    case Level::error:
      return "error";
    case Level::warn:
      return "warn";
    case Level::hint:
      return "hint";
    case Level::note:
      return "note";
  }
  return "";
}

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::fires:
      return "fires";
    case Outcome::no_gain:
      return "no_gain";
    case Outcome::not_applicable:
      return "not_applicable";
    case Outcome::unknown:
      return "unknown";
  }
  return "";
}

std::vector<RuleGroup> rule_groups() {
  return {mapping_rules(),      pipeline_rules(),      expert_rules(),    sharding_rules(),
          data_overlap_rules(), model_overlap_rules(), precision_rules(), host_rules(),
          memory_rules(),       fusion_rules(),        sequence_rules(),  scaling_rules(),
          sanity_rules()};
}

}  // namespace viaduct::rules
