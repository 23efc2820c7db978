// Signals that end the process remove what it was writing.

#include "base/unfinished_files.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

int64_t files_in(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder),
                       std::filesystem::directory_iterator());
}

TEST(UnfinishedFiles, AreRemovedByASignalThatEndsTheProcess) {
  test::TemporaryFolder folder;
  const auto interrupted = [&](int signal) {
    ::signal(signal, SIG_DFL);  // whatever the tests were started with
    const RemovesUnfinishedFiles removes;
    OutputFile complete(folder / "complete"), open(folder / "open"), other(folder / "other");
    complete.commit();
    raise(signal);
  };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EXIT(interrupted(signal), testing::KilledBySignal(signal), "");
    EXPECT_TRUE(std::filesystem::exists(folder / "complete"));
    EXPECT_EQ(files_in(folder.path()), 1) << signal;
  }
}

TEST(UnfinishedFiles, HandlersAreRestoredAndIgnoredSignalsStayIgnored) {
  struct sigaction before {
  }, after{};
  sigaction(SIGTERM, nullptr, &before);
  ASSERT_NE(signal(SIGHUP, SIG_IGN), SIG_ERR);
  {
    const RemovesUnfinishedFiles removes;
    raise(SIGHUP);
    sigaction(SIGTERM, nullptr, &after);
    EXPECT_NE(before.sa_handler, after.sa_handler);
  }
  EXPECT_EQ(signal(SIGHUP, SIG_DFL), SIG_IGN);
  sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

TEST(UnfinishedFiles, MoreThanThereIsRoomForAreWritten) {
  test::TemporaryFolder folder;
  std::vector<std::unique_ptr<OutputFile>> files;
  for (int i = 0; i < 300; ++i) {
    files.push_back(std::make_unique<OutputFile>(folder / std::to_string(i)));
    files.back()->write("x");
  }
  for (const auto& file : files) file->commit();
  EXPECT_EQ(files_in(folder.path()), 300);
}

}  // namespace
}  // namespace viaduct
