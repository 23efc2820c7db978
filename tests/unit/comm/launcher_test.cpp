#include "comm/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace viaduct {
namespace {

Launch detected(const std::map<std::string, std::string>& variables) {
  return detect_launch([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

void expect(const Launch& found, Launcher launcher, int ranks, int local_ranks) {
  EXPECT_EQ(found.launcher, launcher);
  EXPECT_EQ(found.ranks, ranks);
  EXPECT_EQ(found.local_ranks, local_ranks);
}

TEST(Launcher, NobodyStartedAProcessWithoutVariables) {
  expect(detected({}), Launcher::none, 1, 1);
  expect(detected({{"WORLD_SIZE", "4"}}), Launcher::none, 1, 1);
}

TEST(Launcher, MpiSaysHowManyRanks) {
  expect(detected({{"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}),
         Launcher::mpi, 8, 4);
  expect(detected({{"PMI_SIZE", "6"}, {"MPI_LOCALNRANKS", "3"}}), Launcher::mpi, 6, 3);
  EXPECT_EQ(detected({{"PMI_SIZE", "6"}}).variable, "PMI_SIZE");
  expect(detected({{"OMPI_COMM_WORLD_SIZE", "2"}, {"RANK", "0"}, {"WORLD_SIZE", "4"}}),
         Launcher::mpi, 2, 1);
}

TEST(Launcher, MpiSaysWhichRankAProcessIs) {
  EXPECT_EQ(detected({{"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_RANK", "5"}}).rank, 5);
  EXPECT_EQ(detected({{"PMI_SIZE", "6"}, {"PMI_RANK", "2"}}).rank, 2);
  EXPECT_EQ(detected({{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "3"}}).rank, 3);
  EXPECT_EQ(detected({{"OMPI_COMM_WORLD_SIZE", "8"}}).rank, 0) << "who does not know speaks";
  EXPECT_EQ(detected({{"RANK", "1"}, {"WORLD_SIZE", "4"}}).rank, 0);
}

TEST(Launcher, SlurmSaysHowManyTasksEachNodeHas) {
  std::map<std::string, std::string> step{{"SLURM_STEP_NUM_TASKS", "11"},
                                          {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"},
                                          {"SLURM_NODEID", "1"}};
  expect(detected(step), Launcher::mpi, 11, 4);
  step["SLURM_NODEID"] = "2";
  expect(detected(step), Launcher::mpi, 11, 3);
}

TEST(Launcher, TorchrunIsKnown) {
  expect(detected({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}}),
         Launcher::torchrun, 4, 2);
}

TEST(Launcher, NoNumberIsAnError) {
  for (const char* ranks : {"many", "0", ""}) {
    try {
      detected({{"OMPI_COMM_WORLD_SIZE", ranks}});
      FAIL() << ranks;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("OMPI_COMM_WORLD_SIZE"));
    }
  }
}

}  // namespace
}  // namespace viaduct
