// SAVE/best, which names the best step, and its protection from the removal of old steps.

#include <gmock/gmock.h>

#include "base/file.h"
#include "checkpoint/async_saver.h"
#include "checkpoint/old_steps.h"
#include "checkpoint/save_folder.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using test::TemporaryFolder;
using testing::ElementsAre;

void save_step(const std::filesystem::path& save, int64_t step, bool is_best) {
  StagedCheckpoint staged;
  staged.save = save;
  staged.step = step;
  staged.is_best = is_best;
  const Tensor tensor = test::patterned(DType::u8, {40}, static_cast<uint64_t>(step));
  staged.entries.push_back({whole_entry({"w", tensor.dtype(), tensor.shape()}), tensor, {}});
  staged.keep_last = 2;
  save_checkpoint(*make_self_communicator(), staged);
}

TEST(BestStep, StaysUntilAnotherIsBetter) {
  TemporaryFolder save;
  EXPECT_FALSE(best_step(save.path()).has_value());
  save_step(save.path(), 10, true);
  for (const int64_t step : {20, 30, 40}) save_step(save.path(), step, false);
  EXPECT_EQ(best_step(save.path()), 10);
  EXPECT_EQ(latest_step(save.path()), 40);
  EXPECT_THAT(saved_steps(save.path()), ElementsAre(10, 30, 40));
  save_step(save.path(), 50, true);
  EXPECT_EQ(best_step(save.path()), 50);
  EXPECT_THAT(saved_steps(save.path()), ElementsAre(40, 50));
  save_step(save.path(), 60, false);
  save_step(save.path(), 70, false);
  EXPECT_THAT(saved_steps(save.path()), ElementsAre(50, 60, 70));
  EXPECT_EQ(read_file(save / "best"), "step_00000050\n");
}

TEST(BestStep, IsNoneWhereTheFileNamesNothing) {
  TemporaryFolder save;
  save_step(save.path(), 10, true);
  write_best(save.path(), 20);
  EXPECT_FALSE(best_step(save.path()).has_value());
  write_file_atomically(save / "best", "nonsense");
  EXPECT_FALSE(best_step(save.path()).has_value());
  remove_best(save.path());
  EXPECT_FALSE(std::filesystem::exists(save / "best"));
  remove_best(save.path());
}

}  // namespace
}  // namespace viaduct
