// The configurations in the repository are valid: every name is known and built, every value in its
// range.

#include <gmock/gmock.h>

#include "base/error.h"
#include "run/run_config.h"
#include "support/source_text.h"

namespace viaduct {
namespace {

TEST(Configs, AreValid) {
  const auto files = test::files_below("configs", {".yaml"});
  EXPECT_THAT(files, testing::Not(testing::IsEmpty()));
  for (const auto& file : files) {
    try {
      load_run_config(file, {});
    } catch (const ConfigError& error) {
      ADD_FAILURE() << test::shown(file) << ": " << testing::PrintToString(error.problems());
    }
  }
}

}  // namespace
}  // namespace viaduct
