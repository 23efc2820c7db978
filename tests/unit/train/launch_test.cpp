#include "train/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/error.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const std::map<std::string, std::string>& variables) {
  try {
    check_launch([&](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Launch, NobodyOrOneRankIsFine) {
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({{"OMPI_COMM_WORLD_SIZE", "1"}}), "");
  EXPECT_EQ(refusal({{"SLURM_STEP_NUM_TASKS", "1"}, {"RANK", "0"}, {"WORLD_SIZE", "1"}}), "");
  EXPECT_EQ(refusal({{"RANK", "0"}}), "") << "a name that shells of people may have";
}

TEST(Launch, TorchrunIsRefusedWithTheLineToUse) {
  EXPECT_THAT(refusal({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}}),
              AllOf(HasSubstr("torchrun"), HasSubstr("mpirun -n 4 viaduct train CONFIG.yaml")));
}

TEST(Launch, SeveralRanksAreNotBuiltYet) {
  EXPECT_THAT(refusal({{"OMPI_COMM_WORLD_SIZE", "2"}}), HasSubstr("not built yet"));
  EXPECT_THAT(refusal({{"PMI_SIZE", "8"}}), HasSubstr("PMI_SIZE=8"));
}

}  // namespace
}  // namespace viaduct
