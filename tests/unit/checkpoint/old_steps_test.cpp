// Old steps are removed in the background, with at most one save's removals at a time.

#include "checkpoint/old_steps.h"

#include <gmock/gmock.h>

#include "base/file.h"
#include "checkpoint/async_saver.h"
#include "checkpoint/save_folder.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using test::TemporaryFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

void save_step(const std::filesystem::path& save, int64_t step,
               const std::shared_ptr<OldSteps>& old_steps) {
  StagedCheckpoint staged;
  staged.save = save;
  staged.step = step;
  const Tensor tensor = test::patterned(DType::u8, {40}, static_cast<uint64_t>(step));
  staged.entries.push_back({whole_entry({"w", tensor.dtype(), tensor.shape()}), tensor, {}});
  staged.keep_last = 2;
  staged.old_steps = old_steps;
  save_checkpoint(*make_self_communicator(), staged);
}

TEST(OldSteps, OnlyTheKeptStepsAreInSightAtOnceAndTheRestGoes) {
  TemporaryFolder save;
  {
    const auto old_steps = std::make_shared<OldSteps>();
    for (const int64_t step : {10, 20, 30, 40, 40}) {
      save_step(save.path(), step, old_steps);
      EXPECT_LE(saved_steps(save.path()).size(), 2u);
    }
    EXPECT_THAT(saved_steps(save.path()), ElementsAre(30, 40));
  }  // joined here
  EXPECT_THAT(names_in(save.path()), ElementsAre("latest", "step_00000030", "step_00000040"));
}

TEST(OldSteps, AFolderThatStaysIsAWarning) {
  TemporaryFolder save;
  write_file_atomically(save / "file", "");
  testing::internal::CaptureStderr();
  {
    OldSteps old_steps;
    // A file of the kernel that cannot be removed.
    old_steps.remove({"/proc/self/environ", save / "file"});
    old_steps.wait();
    EXPECT_FALSE(old_steps.has("file"));
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("warning: an old checkpoint stays"), HasSubstr("environ")));
  EXPECT_FALSE(std::filesystem::exists(save / "file"));
}

TEST(OldSteps, LeftoversThatAreBeingRemovedAreLeftAlone) {
  TemporaryFolder save;
  // Many files, so that the removal is in progress during the search for leftovers; in any order
  // both succeed and no file remains.
  const auto old = save / "step_00000010.tmp-old";
  std::filesystem::create_directory(old);
  for (int i = 0; i < 500; ++i) std::ofstream(old / std::to_string(i)) << i;
  std::filesystem::create_directory(save / "step_00000005.tmp-old");
  OldSteps old_steps;
  old_steps.remove({old});
  remove_leftovers(save.path(), &old_steps);
  old_steps.wait();
  EXPECT_THAT(names_in(save.path()), testing::IsEmpty());
}

}  // namespace
}  // namespace viaduct
