// dist.vboost with a script in place of nvidia-smi: it moves the slider, refuses, hangs, or is not
// there.

#include "run/gpu_boost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fake_program.h"

namespace viaduct {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kMoves = R"(echo "$@" >>"$HERE/calls"
if [ "$2" = -l ]; then
  echo "GPU 0"
  echo "  vboost    1    4"
else
  echo "Successfully set vboost"
  echo "for GPU 0"
fi
)";

TEST(GpuBoost, IsMovedAndItsStateListed) {
  const FakeProgram smi("nvidia-smi", kMoves);
  const BoostOutcome outcome = move_boost_slider(1);
  EXPECT_TRUE(outcome.moved);
  EXPECT_EQ(outcome.text,
            "nvidia-smi boost-slider --vboost 1: Successfully set vboost for GPU 0; now: vboost 1 "
            "4");
  EXPECT_EQ(smi.left("calls"), "boost-slider --vboost 1\nboost-slider -l\n");
}

TEST(GpuBoost, IsMovedWhereTheStateIsNotListed) {
  const FakeProgram smi("nvidia-smi", "[ \"$2\" != -l ]\n");
  const BoostOutcome outcome = move_boost_slider(0);
  EXPECT_TRUE(outcome.moved);
  EXPECT_EQ(outcome.text, "nvidia-smi boost-slider --vboost 0");
}

TEST(GpuBoost, ARefusalHasItsWords) {
  const FakeProgram smi("nvidia-smi", "echo Insufficient Permissions >&2; exit 4\n");
  const BoostOutcome outcome = move_boost_slider(1);
  EXPECT_FALSE(outcome.moved);
  EXPECT_EQ(outcome.text,
            "nvidia-smi boost-slider --vboost 1: exit status 4: Insufficient Permissions");
}

TEST(GpuBoost, OneThatHangsIsLeft) {
  const FakeProgram smi("nvidia-smi", "sleep 60\n");
  const BoostOutcome outcome = move_boost_slider(1, 0.3);
  EXPECT_FALSE(outcome.moved);
  EXPECT_THAT(outcome.text, HasSubstr("no answer after 0.3 s"));
}

/// What a process logs, with PATH as the script leaves it.
std::string logged(const DistConfig& config, const Launch& launch) {
  testing::internal::CaptureStderr();
  boost_gpus(config, launch);
  return testing::internal::GetCapturedStderr();
}

TEST(GpuBoost, ItsAbsenceIsAWarning) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/no/such/folder", 1);
  DistConfig config;
  config.vboost = 1;
  const std::string text = logged(config, {});
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_THAT(text, HasSubstr("warning: dist.vboost = 1: the boost slider was not moved"));
  EXPECT_THAT(text, HasSubstr("No such file"));
}

TEST(GpuBoost, OnlyTheFirstProcessOfAMachineMovesIt) {
  const FakeProgram smi("nvidia-smi", kMoves);
  DistConfig config;
  EXPECT_THAT(logged(config, {}), IsEmpty()) << "nothing is given";
  config.vboost = 1;
  Launch second{.launcher = Launcher::torchrun, .ranks = 4, .local_ranks = 2, .rank = 2};
  second.local_rank = 1;
  EXPECT_THAT(logged(config, second), IsEmpty());
  second.local_rank = 0;
  EXPECT_THAT(logged(config, second), HasSubstr("dist.vboost = 1: nvidia-smi"));
  Launch mpi{.launcher = Launcher::mpi, .ranks = 4, .local_ranks = 2, .rank = 3};
  EXPECT_THAT(logged(config, mpi), IsEmpty());
  mpi.rank = 2;
  EXPECT_THAT(logged(config, mpi), HasSubstr("dist.vboost = 1: nvidia-smi"));
}

}  // namespace
}  // namespace viaduct
