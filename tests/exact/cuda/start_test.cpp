// The order in which a program starts with a GPU: what CUDA reads when it starts is set before
// anything calls it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "cuda_host/streams.h"
#include "run/launch.h"
#include "run/setup.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::Contains;

constexpr const char* kName = "CUDA_DEVICE_MAX_CONNECTIONS";

class CudaStart : public testing::Test {
 protected:
  CudaStart() { ::unsetenv(kName); }
  ~CudaStart() override { ::unsetenv(kName); }
};

TEST_F(CudaStart, FindsTheVariablesOfTheConfiguration) {
  const Overrides run = tiny_run() + Overrides{std::string("env_vars.") + kName + "=1"};
  cuda_host::reset_runtime({});
  RunConfig defaults;
  defaults.dist = launch_defaults({}, {{}, run});
  EXPECT_TRUE(defaults.dist.on_cuda());
  EXPECT_EQ(cuda_host::connections_at_start(), "1");
  const RunSetup setup = prepare_run(load_run_config({}, run, defaults));
  EXPECT_THAT(setup.notes, Contains(std::string(kName) + "=1 is set for this run (env_vars)"));
}

TEST_F(CudaStart, SetsNothingForAnotherDevice) {
  launch_defaults({}, {{}, {std::string("env_vars.") + kName + "=1", "dist.device=cpu"}});
  EXPECT_EQ(std::getenv(kName), nullptr);
}

}  // namespace
}  // namespace viaduct
