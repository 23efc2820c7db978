// No setting is ignored: each built field is set to another legal value with an observable effect,
// and to illegal ones, which are refused by name. In a plain run many settings have no effect; then
// a note is required.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "model/family.h"
#include "model/further_fields.h"
#include "ops/cpu/cpu_ops.h"
#include "support/field_walk.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using namespace test;
using testing::HasSubstr;

/// The built fields by full name, with the choices that are built.
struct BuiltField {
  std::string name, type;
  std::vector<std::string> choices, planned;
  std::optional<double> low, high;
  bool above_low = false;
};

std::vector<BuiltField> built_fields() {
  RunConfig config;
  const Schema schema = run_schema(config);
  std::vector<BuiltField> fields;
  for (const FieldGroup& group : schema.groups()) {
    for (const Field& field : group.fields()) {
      if (!field.current || field.state_on(DeviceKind::cpu) != KnobState::built) continue;
      BuiltField built{field.full_name(), field.type, field.allowed,  field.planned_choices,
                       field.low,         field.high, field.above_low};
      std::erase_if(built.choices, [&](const std::string& choice) {
        return std::count(built.planned.begin(), built.planned.end(), choice) > 0;
      });
      fields.push_back(std::move(built));
    }
  }
  return fields;
}

std::string section_of(const std::string& name) {
  return name.substr(0, name.find('.'));
}

/// Values that type, range and choices exclude.
std::vector<std::string> excluded_values(const BuiltField& field) {
  if (field.type.starts_with("string") && field.choices.empty()) return {};  // any text is valid
  const bool list =
      field.type.starts_with("list") || field.type.find("or list") != std::string::npos;
  std::vector<std::string> values{field.type.find("map") == std::string::npos ? "{banana: 1}"
                                                                              : "banana"};
  if (!list) values.push_back("[[banana]]");
  const auto add = [&](const std::string& text) {
    values.push_back(field.type.starts_with("list") ? "[" + text + "]" : text);
  };
  const bool number =
      field.type.find("int") != std::string::npos || field.type.find("number") != std::string::npos;
  if (number || field.type.starts_with("bool") || !field.choices.empty()) add("banana");
  if (number) add(".nan");
  if (field.low) add(fmt::format("{}", field.above_low ? *field.low : *field.low - 1));
  if (field.high && !std::isinf(*field.high)) add(fmt::format("{:.0f}", *field.high + 1));
  if (field.type.starts_with("number")) add(".inf");
  for (const std::string& choice : field.planned) add(choice);
  return values;
}

/// The message names the field or the value.
void expect_refused(const FieldCase& one, const Overrides& run, const std::string& value) {
  const std::string setting = one.field + "=" + value;
  std::string said;
  try {
    notes_of(run + Overrides{setting});
    const RunText text = run_text(run + Overrides{setting}, false);
    EXPECT_TRUE(text.failed) << setting << " is accepted; " << text.said;
    said = text.said;
  } catch (const Error& error) {
    said = error.what();
  }
  const std::string name = one.field.substr(one.field.find('.') + 1);
  const std::string last = value.substr(value.find_last_of(" [") + 1);  // of a list
  EXPECT_THAT(said, testing::AnyOf(HasSubstr(name), HasSubstr(last.substr(0, last.find(']')))))
      << setting;
}

/// The observation that a case names, for a run.
std::string shown(Shows where, const Overrides& run) {
  switch (where) {
    case Shows::record:
      return record_of(run);
    case Shows::notes:
      return notes_of(run);
    case Shows::numbers: {
      const RunText text = run_text(run, false);
      EXPECT_NE(text.numbers, "") << text.said;
      return text.numbers;
    }
    case Shows::files:
      return run_text(run, true).files;
    case Shows::said:
      return run_text(run, true).said;
  }
  return "";
}

/// Machines without the instructions cannot show it, and neither can this program without a GPU
/// library (tests/exact/cuda does).
bool possible_here(const FieldCase& one) {
  if (one.field == "dist.device") return false;
  if (one.field == "dist.cpu_isa") return best_cpu_isa() != CpuIsa::avx2;
  if (one.field == "model.packed_weights") return best_cpu_isa() >= CpuIsa::avx512_bf16;
  return true;
}

void expect_effect(const FieldCase& one, const WalkFiles& files) {
  const Overrides with = files.filled(joined(plain_runs()[0], one.with));
  const Overrides other = with + files.filled(Overrides{one.field + "=" + one.other} + one.also);
  if (!one.proof_file.empty()) {
    EXPECT_THAT(read_file(source_folder() / "tests" / one.proof_file), HasSubstr(one.proof_test));
    EXPECT_NO_THROW(notes_of(other));
    return;
  }
  EXPECT_NE(shown(one.shows, with), shown(one.shows, other));
}

/// In a plain run: an error, a note that names the field, or a different run.
void expect_no_silence(const FieldCase& one, const Overrides& plain, const WalkFiles& files) {
  const Overrides other = plain + files.filled({one.field + "=" + one.other});
  const std::string name = one.field.substr(one.field.find('.') + 1);
  try {
    // A value equal to the resolved default needs no note.
    if (to_yaml(setup_of(plain).config) == to_yaml(setup_of(other).config)) return;
    const std::string before = notes_of(plain), after = notes_of(other);
    if (before != after && after.find(name) != std::string::npos) {
      // A setting that is noted as without effect has none.
      if (plain == plain_runs()[0] && after.find("no effect here") != std::string::npos) {
        EXPECT_TRUE(record_of(plain) == record_of(other)) << one.field << ": " << after;
      }
      return;
    }
    if (record_of(plain) != record_of(other)) return;
  } catch (const Error&) {
    return;
  }
  static std::map<std::string, RunText> plains;
  const auto [at, added] = plains.try_emplace(plain[0]);
  if (added) at->second = run_text(plain, true);
  const RunText text = run_text(other, true);
  const bool same = text.said == at->second.said && text.numbers == at->second.numbers &&
                    text.files == at->second.files;
  EXPECT_TRUE(!same || !one.quiet.empty())
      << one.field << "=" << one.other << " changes nothing and nothing is said, in a run of "
      << plain[0];
}

// Otherwise a difference of records would mean nothing.
TEST(FieldWalk, ARecordIsTheSameEachTime) {
  for (const Overrides& plain : plain_runs()) {
    for (const char* recipe : {"fp32", "bf16_mixed"}) {
      const Overrides run = plain + Overrides{std::string("mixed_precision=") + recipe};
      const std::string first = record_of(run);
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(record_of(run) == first) << plain[0] << recipe;
    }
  }
}

// Generation, evaluation and conversion read checkpoints of this run.
TEST(FieldWalk, CheckpointsSayEveryFieldOfTheModel) {
  const WalkFiles files;
  for (const FieldCase& one : field_cases()) {
    if (section_of(one.field) != "model") continue;
    for (const Overrides& plain : plain_runs()) {
      SCOPED_TRACE(one.field + "=" + one.other + " of " + plain[0]);
      try {
        const RunSetup setup = setup_of(plain + files.filled({one.field + "=" + one.other}));
        const ModelConfig read = read_hf_config(setup.hf_config, "config.json");
        EXPECT_EQ(further_fields(setup.model, read), "");
      } catch (const ConfigError&) {
        // A family that does not support it refuses it.
      }
    }
  }
}

class FieldWalk : public testing::TestWithParam<std::string> {
 protected:
  /// The cases of this part of the walk.
  static std::vector<FieldCase> cases() {
    std::vector<FieldCase> own;
    const auto built = built_fields();
    for (FieldCase& one : field_cases()) {
      const bool is_built = std::any_of(built.begin(), built.end(), [&](const BuiltField& field) {
        return field.name == one.field;
      });
      if (is_built && section_of(one.field) == GetParam()) own.push_back(std::move(one));
    }
    return own;
  }
};

TEST(FieldWalk, EveryBuiltFieldWithAChoiceHasACase) {
  std::set<std::string> built, walked;
  for (const BuiltField& field : built_fields()) {
    // With one choice there is no other value.
    if (field.choices.size() != 1) built.insert(field.name);
  }
  RunConfig config;
  const Schema schema = run_schema(config);
  for (const FieldCase& one : field_cases()) {
    EXPECT_NE(schema.find(one.field), nullptr) << one.field;
    EXPECT_TRUE(walked.insert(one.field).second) << one.field << " has two";
  }
  for (const std::string& field : built) {
    EXPECT_TRUE(walked.contains(field))
        << field << ": tests/support/field_walk_table.cpp needs a line for it";
  }
  EXPECT_GT(built.size(), 150u);
}

TEST_P(FieldWalk, AnotherValueShows) {
  const WalkFiles files;
  for (const FieldCase& one : cases()) {
    if (!possible_here(one)) continue;
    SCOPED_TRACE(one.field);
    try {
      expect_effect(one, files);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

// Otherwise a difference of texts would mean nothing.
TEST(FieldWalk, ATextIsTheSameEachTime) {
  for (const Overrides& plain : plain_runs()) {
    const RunText first = run_text(plain, true);
    for (int i = 0; i < 5; ++i) {
      const RunText again = run_text(plain, true);
      EXPECT_EQ(again.said, first.said);
      EXPECT_EQ(again.numbers, first.numbers);
      EXPECT_EQ(again.files, first.files);
    }
  }
}

TEST_P(FieldWalk, NothingIsSilentInAPlainRun) {
  const WalkFiles files;
  for (const FieldCase& one : cases()) {
    if (!possible_here(one)) continue;
    for (const Overrides& plain : plain_runs()) expect_no_silence(one, plain, files);
  }
}

TEST_P(FieldWalk, IllegalValuesAreRefused) {
  const WalkFiles files;
  const auto fields = built_fields();
  for (const FieldCase& one : cases()) {
    const Overrides with = files.filled(joined(plain_runs()[0], one.with));
    const auto field = std::find_if(fields.begin(), fields.end(), [&](const BuiltField& built) {
      return built.name == one.field;
    });
    ASSERT_NE(field, fields.end());
    for (const std::string& value : excluded_values(*field)) expect_refused(one, with, value);
    for (const std::string& value : one.wrong)
      expect_refused(one, with, files.filled({value}).front());
  }
}

std::vector<std::string> sections() {
  std::vector<std::string> names;
  for (const FieldCase& one : field_cases()) {
    if (names.empty() || names.back() != section_of(one.field))
      names.push_back(section_of(one.field));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Sections, FieldWalk, testing::ValuesIn(sections()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace viaduct
