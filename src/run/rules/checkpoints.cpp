// What is saved, and which changes a run that continues may have.

#include "run/parallel_settings.h"
#include "run/resume_rules.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

void validate_allowed_changes(const std::vector<std::string>& names, Problems& problems) {
  if (names.empty()) return;  // a search validates many configurations
  RunConfig defaults;
  const Schema schema = run_schema(defaults);
  for (const std::string& name : names) {
    const auto rule = resume_rule(schema, name);
    if (!rule || rule->change != ResumeChange::refused) {
      problems.add("checkpoint.allow_changes: {} is not a setting whose change is refused{}", name,
                   rule ? " (it may change)" : "");
    } else if (rule->other_shapes) {
      problems.add(
          "checkpoint.allow_changes: {} cannot be allowed to change: {}; start anew with another "
          "checkpoint.save",
          name, rule->effect);
    }
  }
}

void refuse_checkpoints(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  if (config.checkpoint.most_recent_k == 0) {
    problems.add("checkpoint.most_recent_k: expected -1 (all) or at least 1, found 0");
  }
  validate_allowed_changes(config.checkpoint.allow_changes, problems);
}

}  // namespace

Topic checkpoints_topic() {
  std::vector<NoEffectRule> idle{
      {{"checkpoint.keep_best"},
       [](const RunConfig& c, const ConfigOutcome&) {
         if (c.train.skip_train) return std::string("train.skip_train = true: nothing is saved");
         return reason_if(!c.checkpoint.save && !c.train.early_stopping_patience,
                          "checkpoint.save is null: nothing is saved");
       }},
      {{"checkpoint.fully_parallel_save"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(data_parallel_size(c) * c.parallel.context_parallel_size == 1,
                          "one data-parallel rank has no copies to share");
       }},
  };
  return {refuse_checkpoints, std::move(idle)};
}

}  // namespace viaduct
