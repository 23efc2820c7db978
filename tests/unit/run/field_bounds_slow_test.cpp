// Absurd numbers: each field is bounded, or its value is refused before anything is built.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "engine/dry_run.h"
#include "run/run_config.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::Not;

TEST(FieldBounds, NoNumberMakesADryRunLongOrBreaksIt) {
  RunConfig config;
  const Schema schema = run_schema(config);
  int tried = 0;
  for (const FieldGroup& group : schema.groups()) {
    for (const Field& field : group.fields()) {
      if (field.type.find("int") == std::string::npos ||
          field.state_on(DeviceKind::cpu) != KnobState::built)
        continue;
      for (const char* value : {"2147483647", "2147483648", "4294967296", "9223372036854775807"}) {
        const bool list = field.type.starts_with("list");
        const std::string text =
            field.full_name() + "=" + (list ? "[" + std::string(value) + "]" : value);
        SCOPED_TRACE(text);
        ++tried;
        try {
          dry_run_stages(setup_of(tiny_run() + Overrides{text}));
        } catch (const ConfigError& error) {
          EXPECT_THAT(error.what(), Not(HasSubstr("vector")));
          EXPECT_THAT(error.what(), HasSubstr(field.name));
        } catch (const std::exception& error) {
          ADD_FAILURE() << "not an error of the configuration: " << error.what();
        }
      }
    }
  }
  EXPECT_GT(tried, 100);
}

}  // namespace
}  // namespace viaduct
