// The config.yaml of a checkpoint, of this and of another version.

#include "train/stored_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/version.h"
#include "run/run_config.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class StoredConfig : public testing::Test {
 protected:
  /// The lines about what was not read.
  std::vector<std::string> unread(const std::string& text) {
    write_file_atomically(folder_ / "config.yaml", text);
    std::vector<std::string> lines;
    read_stored_config(run_schema(config_), folder_ / "config.yaml", lines);
    return lines;
  }

  test::TemporaryFolder folder_;
  RunConfig config_;
};

TEST_F(StoredConfig, OfThisVersionIsReadWhole) {
  EXPECT_THAT(unread(stored_config_text("peft:\n  scheme: lora\n  dim: 3\n")), ElementsAre());
  EXPECT_EQ(config_.peft.dim, 3);
}

TEST_F(StoredConfig, FieldsOfOtherVersionsAreNamedWithTheNearest) {
  EXPECT_THAT(unread("# written by viaduct 0.0.3\npeft:\n  target_modulez: [q_proj]\n  dim: 5\n"),
              ElementsAre(AllOf(HasSubstr("config.yaml:3"), HasSubstr("peft.target_modulez"),
                                HasSubstr("did you mean 'peft.target_modules'?"),
                                HasSubstr("the file is of viaduct 0.0.3"))));
  EXPECT_EQ(config_.peft.dim, 5);  // the rest is read
  EXPECT_THAT(unread("peft:\n  scheme: vera\n"),
              ElementsAre(AllOf(HasSubstr("peft.scheme: expected"), HasSubstr("vera"),
                                HasSubstr("the file is of an earlier version"))));
  EXPECT_THAT(unread(stored_config_text("peft:\n  rankk: 8\n")),
              ElementsAre(HasSubstr("the file is of this version, and was edited")));
}

}  // namespace
}  // namespace viaduct
