// Where the sessions of a run began.

#include "report/session_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::ElementsAre;

std::vector<int64_t> steps(const std::filesystem::path& save) {
  std::vector<int64_t> steps;
  for (const SessionStart& session : read_sessions(save)) steps.push_back(session.step);
  return steps;
}

TEST(SessionLog, KeepsTheSessionsThatTheRunGoesOnFrom) {
  test::TemporaryFolder folder;
  EXPECT_TRUE(read_sessions(folder.path()).empty());
  add_session(folder.path(), {10, {"optimizer.lr: was 1, is \"2\""}});
  add_session(folder.path(), {20, {}});
  EXPECT_THAT(steps(folder.path()), ElementsAre(10, 20));
  EXPECT_THAT(read_sessions(folder.path()).front().changed,
              ElementsAre("optimizer.lr: was 1, is \"2\""));
  add_session(folder.path(), {15, {}});  // from an earlier checkpoint
  EXPECT_THAT(steps(folder.path()), ElementsAre(10, 15));
  // Lines that are damaged are no sessions.
  const auto file = folder / "sessions.jsonl";
  write_file_atomically(file,
                        read_file(file) + "{\"step\":\n[]\n{\"step\":\"x\",\"changed\":[]}\n{");
  EXPECT_THAT(steps(folder.path()), ElementsAre(10, 15));
  add_session(folder.path(), {0, {}});  // begins anew
  EXPECT_TRUE(read_sessions(folder.path()).empty());
}

}  // namespace
}  // namespace viaduct
