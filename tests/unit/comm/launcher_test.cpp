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
  EXPECT_EQ(detected({{"OMPI_COMM_WORLD_SIZE", "8"}}).rank, 0)
      << "without a rank it counts as rank 0";
  EXPECT_EQ(detected({{"RANK", "1"}, {"WORLD_SIZE", "4"}}).rank, 1);
}

TEST(Launcher, MpirunMaySayHowLongRanksHaveToEnd) {
  EXPECT_TRUE(detected({{"OMPI_COMM_WORLD_SIZE", "2"}}).short_notice);
  for (const char* name :
       {"OMPI_MCA_odls_base_sigkill_timeout", "PRTE_MCA_odls_base_sigkill_timeout"})
    EXPECT_FALSE(detected({{"OMPI_COMM_WORLD_SIZE", "2"}, {name, "600"}}).short_notice) << name;
  EXPECT_FALSE(detected({{"PMI_SIZE", "2"}}).short_notice);
  EXPECT_FALSE(detected({}).short_notice);
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

TEST(Launcher, TorchrunSaysWhereRanksMeetAndWhichGpuIsWhose) {
  std::map<std::string, std::string> variables{{"RANK", "5"},        {"WORLD_SIZE", "8"},
                                               {"LOCAL_RANK", "1"},  {"LOCAL_WORLD_SIZE", "4"},
                                               {"MASTER_ADDR", "n"}, {"MASTER_PORT", "29500"}};
  Launch launch = detected(variables);
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.meeting_host, "n");
  EXPECT_EQ(launch.meeting_port, 29500);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(detected(variables).meeting_port, 29501) << "torchrun's agent has the port itself";
  variables.erase("LOCAL_RANK");
  EXPECT_EQ(detected(variables).local_rank, 5);
  for (const auto& [name, value] : std::multimap<std::string, std::string>{{"RANK", "8"},
                                                                           {"RANK", "-1"},
                                                                           {"MASTER_PORT", "0"},
                                                                           {"MASTER_PORT", "http"},
                                                                           {"LOCAL_RANK", "1x"}}) {
    auto wrong = variables;
    wrong[name] = value;
    EXPECT_THAT([&] { detected(wrong); }, testing::ThrowsMessage<ConfigError>(testing::HasSubstr(
                                              name + "=" + value + ": expected a number from")));
  }
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
