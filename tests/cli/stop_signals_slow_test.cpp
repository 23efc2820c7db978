// A second SIGTERM, more than three seconds after the first, ends a run at once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>

#include "support/paths.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

TEST(TrainCommandSignal, ALaterSecondOneEndsAtOnce) {
  TemporaryFolder folder;
  // A step of many rows, which would take minutes.
  RunProcess process(viaduct_binary(), Overrides{"train"} + tiny_run() +
                                           Overrides{"checkpoint.save=" + folder.path().string(),
                                                     "train.global_batch_size=200000"});
  process.wait_until_caught(SIGTERM);
  // Repeats of the first do nothing, until one comes late enough.
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::seconds(4)) {
    process.send(SIGTERM);
    process.wait_until_delivered();
  }
  EXPECT_EQ(process.finish(), 128 + SIGTERM) << process.err();
  EXPECT_FALSE(std::filesystem::exists(folder / "latest"));
}

}  // namespace
}  // namespace viaduct
