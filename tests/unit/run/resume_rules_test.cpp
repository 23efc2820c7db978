// Each setting has a rule for its change when a run resumes.

#include "run/resume_rules.h"

#include <gtest/gtest.h>

#include "run/run_config.h"

namespace viaduct {
namespace {

TEST(ResumeRules, EveryBuiltFieldHasOne) {
  RunConfig config;
  const Schema schema = run_schema(config);
  int refused = 0, said = 0, free = 0;
  for (const FieldGroup& group : schema.groups()) {
    for (const Field& field : group.fields()) {
      if (!field.current || field.state_on(DeviceKind::cpu) != KnobState::built) continue;
      const auto rule = resume_rule(schema, field.full_name());
      EXPECT_TRUE(rule) << field.full_name() << ": its declaration has no .on_resume(…)";
      if (!rule) continue;
      (rule->change == ResumeChange::free   ? free
       : rule->change == ResumeChange::said ? said
                                            : refused) += 1;
      EXPECT_EQ(rule->effect.empty(), rule->change == ResumeChange::free) << field.full_name();
    }
  }
  EXPECT_GT(refused, 30);
  EXPECT_GT(said, 10);
  EXPECT_GT(free, 100);
  EXPECT_FALSE(resume_rule(schema, "model.no_such_field"));
}

}  // namespace
}  // namespace viaduct
