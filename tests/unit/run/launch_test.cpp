#include "run/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>

#include "base/error.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

Launch launch(const std::map<std::string, std::string>& variables) {
  return launch_on_cpu([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Launch, MpiDecidesTheRanks) {
  EXPECT_EQ(launch_defaults(launch({})).ranks, 1);
  EXPECT_EQ(launch_defaults(launch({{"OMPI_COMM_WORLD_SIZE", "8"}})).ranks, 8);
  EXPECT_EQ(launch_defaults(launch({{"RANK", "0"}})).ranks, 1) << "a name that shells may have";
}

TEST(Launch, TorchrunIsRefusedWithTheLineToUse) {
  EXPECT_THAT(
      [] {
        launch({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}});
      },
      ThrowsMessage<ConfigError>(
          AllOf(HasSubstr("torchrun"), HasSubstr("mpirun -n 4 viaduct train"))));
}

TEST(Launch, AnotherNumberOfRanksThanTheLaunchersIsRefused) {
  DistConfig config;
  config.ranks = 4;
  const auto nothing = [](std::shared_ptr<Communicator>) {};
  EXPECT_THAT(
      [&] {
        run_ranks(config, launch({{"OMPI_COMM_WORLD_SIZE", "2"}}), nothing);
      },
      ThrowsMessage<ConfigError>(HasSubstr("4, but the launcher started 2")));
}

TEST(Launch, WithoutLauncherRanksAreThreads) {
  DistConfig config;
  config.ranks = 3;
  std::atomic<int> sum = 0;
  run_ranks(config, {}, [&](std::shared_ptr<Communicator> world) {
    EXPECT_EQ(world->size(), 3);
    sum += 1 << world->rank();
  });
  EXPECT_EQ(sum, 7);
}

}  // namespace
}  // namespace viaduct
