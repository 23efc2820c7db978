// A run whose ranks are started separately with torchrun's variables: hosts connect over TCP, GPUs
// exchange tensors by NCCL, and the numbers are those of ranks that one process starts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <thread>

#include "base/error.h"
#include "comm/tcp/tcp_socket.h"
#include "cuda_host/nccl/nccl_double.h"
#include "cuda_host/streams.h"
#include "exact/cuda/launched_run.h"
#include "support/free_port.h"

namespace viaduct {
namespace {

using namespace test;
using testing::HasSubstr;

/// Starts a rank for each GPU number, as torchrun would. Returns the outcomes of successful ranks,
/// and the first message of the others.
std::pair<Outcomes, std::string> launch(const RunSetup& setup, const std::vector<int>& gpus) {
  Outcomes outcomes;
  std::string message;
  std::mutex mutex;
  const int ranks = static_cast<int>(gpus.size()), port = free_port();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Launch launch{.launcher = Launcher::torchrun, .ranks = ranks, .local_ranks = ranks};
      launch.rank = rank;
      launch.variable = "WORLD_SIZE";
      launch.meeting_host = "127.0.0.1";
      launch.meeting_port = port;
      launch.local_rank = gpus[static_cast<size_t>(rank)];
      try {
        run_ranks(setup.config.dist, launch, training(setup, outcomes, mutex));
      } catch (const Error& error) {
        const std::lock_guard lock(mutex);
        if (message.empty()) message = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return {outcomes, message};
}

TEST(Torchrun, RanksHaveTheNumbersOfThoseOfOneProcess) {
  const RunSetup setup = setup_of(run_of(2));
  const Outcomes together = started_together(setup, 2);
  cuda_host::reset_runtime({.seed = 2, .devices = 2});
  nccl_double::reset({.seed = 2});
  const auto [apart, message] = launch(setup, {1, 0});
  EXPECT_EQ(message, "");
  EXPECT_GT(nccl_double::calls(), 0);
  ASSERT_EQ(apart.size(), 2u);
  EXPECT_TRUE(apart == together);
}

TEST(Torchrun, RanksThatShareAGpuAreRefused) {
  const RunSetup setup = setup_of(run_of(2));
  cuda_host::reset_runtime({.seed = 1, .devices = 2});
  EXPECT_THAT(launch(setup, {1, 1}).second,
              HasSubstr("ranks share a GPU, and processes that torchrun"));
}

}  // namespace
}  // namespace viaduct
