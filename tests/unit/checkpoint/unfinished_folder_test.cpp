// A folder that appears whole or not at all, and whose interrupted predecessors are removed.

#include "checkpoint/unfinished_folder.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::TemporaryFolder;

constexpr const char* kDead = "hf.tmp-4194304";  // more processes than there can be

void make_unfinished(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / kUnfinishedMark) << "";
  std::ofstream(folder / "model.safetensors") << "half";
}

TEST(UnfinishedFolder, AppearsWithoutItsMarkOrNotAtAll) {
  TemporaryFolder where;
  const auto to = where / "hf";
  { const UnfinishedFolder given_up(to); }
  EXPECT_TRUE(std::filesystem::is_empty(where.path()));
  UnfinishedFolder folder(to);
  std::ofstream(folder.path() / "a") << "a";
  EXPECT_FALSE(std::filesystem::exists(to));
  folder.finish();
  EXPECT_TRUE(std::filesystem::exists(to / "a"));
  EXPECT_FALSE(std::filesystem::exists(to / kUnfinishedMark));
}

TEST(UnfinishedFolder, RemovesWhatInterruptedProgramsLeftAndNothingElse) {
  TemporaryFolder where;
  make_unfinished(where / kDead);
  make_unfinished(where / "hf.tmp-20251203");  // no process
  make_unfinished(where / "other.tmp-4194304");
  std::filesystem::create_directory(where / "hf.tmp-4194303");  // without the mark
  UnfinishedFolder(where / "hf").finish();
  EXPECT_FALSE(std::filesystem::exists(where / kDead));
  for (const char* stays : {"hf", "hf.tmp-20251203", "other.tmp-4194304", "hf.tmp-4194303"})
    EXPECT_TRUE(std::filesystem::exists(where / stays)) << stays;
}

TEST(UnfinishedFolder, AFolderOfAnotherWithItsNameIsNotTouched) {
  TemporaryFolder where;
  const auto mine = where / ("hf.tmp-" + std::to_string(getpid()));
  std::filesystem::create_directory(mine);
  std::ofstream(mine / "thesis") << "thesis";
  EXPECT_THROW(UnfinishedFolder(where / "hf"), IoError);
  EXPECT_TRUE(std::filesystem::exists(mine / "thesis"));
}

}  // namespace
}  // namespace viaduct
