#include "run/environment_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace viaduct {
namespace {

using testing::ElementsAre;

TEST(Environment, IsSetWhereItIsNotSetAlready) {
  EnvironmentConfig config;
  const auto at = [&](std::string_view name) -> std::optional<std::string>& {
    const auto found = std::find(config.kNames.begin(), config.kNames.end(), name);
    return config.values[static_cast<size_t>(found - config.kNames.begin())];
  };
  ::unsetenv("NCCL_NVLS_ENABLE");
  ::unsetenv("NCCL_GRAPH_REGISTER");
  ::setenv("NCCL_ALGO", "Tree", 1);
  at("NCCL_NVLS_ENABLE") = "0";
  at("NCCL_ALGO") = "Ring";
  EXPECT_THAT(set_environment(config),
              ElementsAre("NCCL_NVLS_ENABLE=0 is set for this run (env_vars)",
                          "NCCL_ALGO=Tree is set in the environment and stays; env_vars has Ring"));
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "0");
  EXPECT_STREQ(std::getenv("NCCL_ALGO"), "Tree");
  EXPECT_EQ(std::getenv("NCCL_GRAPH_REGISTER"), nullptr);
  EXPECT_THAT(set_environment(config),
              ElementsAre("NCCL_NVLS_ENABLE=0 is set in the environment",
                          "NCCL_ALGO=Tree is set in the environment and stays; env_vars has Ring"));
  ::unsetenv("NCCL_NVLS_ENABLE");
  ::unsetenv("NCCL_ALGO");
}

}  // namespace
}  // namespace viaduct
