// No setting that is not implemented yet claims by its default that it is.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "config/load.h"
#include "run/run_config.h"

namespace viaduct {
namespace {

using testing::Contains;
using testing::HasSubstr;

/// What a field says when it is given with its own default.
std::vector<std::string> notes_of_default(const Schema& schema, const Field& field,
                                          DeviceKind device) {
  ConfigOutcome outcome;
  outcome.given[field.full_name()] = field.default_value;
  Problems problems;
  check_states(schema, device, outcome, problems);
  EXPECT_TRUE(problems.empty()) << field.full_name();
  return outcome.notes;
}

// Accepted means: off, or said to have no effect.
TEST(PlannedKnobs, DefaultsAskForNothingOrAreSaidToHaveNoEffect) {
  RunConfig config;
  const Schema schema = run_schema(config);
  int64_t planned = 0;
  for (const FieldGroup& group : schema.groups()) {
    for (const Field& field : group.fields()) {
      for (const std::string& choice : field.planned_choices)
        EXPECT_FALSE(field.default_value.is_plain(choice)) << field.full_name();
      if (field.state_on(DeviceKind::cpu) != KnobState::planned) continue;
      ++planned;
      const auto notes = notes_of_default(schema, field, DeviceKind::cpu);
      const bool harmless =
          std::ranges::count(field.harmless, field.default_value.scalar) > 0;  // as declared
      if (asks_nothing(field.default_value) || harmless) {
        EXPECT_TRUE(notes.empty()) << field.full_name();
      } else {
        EXPECT_THAT(notes, Contains(HasSubstr(field.full_name() + " has no effect")))
            << field.full_name() << " = " << to_flow_yaml(field.default_value);
        EXPECT_FALSE(field.type == "bool") << field.full_name() << " claims to be done";
      }
    }
  }
  EXPECT_GT(planned, 10);
}

}  // namespace
}  // namespace viaduct
