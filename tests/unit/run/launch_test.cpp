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
  return detect_launch([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Launch, MpiDecidesTheRanks) {
  EXPECT_EQ(launch_defaults(launch({})).ranks, 1);
  EXPECT_EQ(launch_defaults(launch({{"OMPI_COMM_WORLD_SIZE", "8"}})).ranks, 8);
  EXPECT_EQ(launch_defaults(launch({{"RANK", "0"}})).ranks, 1) << "a name that shells may have";
}

using Variables = std::map<std::string, std::string>;
const Variables kTorchrun{{"RANK", "1"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "node1"},
                          {"MASTER_PORT", "29500"}};

TEST(Launch, TorchrunDecidesTheRanksToo) {
  EXPECT_EQ(launch_defaults(launch(kTorchrun)).ranks, 4);
  EXPECT_FALSE(launch_defaults(launch(kTorchrun)).in_one_process);
  EXPECT_TRUE(launch_defaults(launch({})).in_one_process);
  DistConfig config;
  config.ranks = 4;
  config.device = DeviceKind::cuda;
  EXPECT_NO_THROW(check_started(config, launch(kTorchrun)));
  config.ranks = 2;
  EXPECT_THAT([&] { check_started(config, launch(kTorchrun)); },
              ThrowsMessage<ConfigError>(HasSubstr("2, but the launcher started 4")));
}

TEST(Launch, TorchrunIsRefusedOnTheCpuWithTheLineToUse) {
  DistConfig config;
  config.ranks = 4;
  EXPECT_THAT([&] { check_started(config, launch(kTorchrun)); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("torchrun"), HasSubstr("mpirun -n 4 viaduct train"))));
}

TEST(Launch, TorchrunsVariablesMustSayWhereRanksMeet) {
  DistConfig config;
  config.ranks = 4;
  config.device = DeviceKind::cuda;
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT"}) {
    Variables some = kTorchrun;
    some.erase(name);
    EXPECT_THAT([&] { check_started(config, launch(some)); },
                ThrowsMessage<ConfigError>(
                    HasSubstr("WORLD_SIZE=4 is set, but " + std::string(name) + " is not")));
  }
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
