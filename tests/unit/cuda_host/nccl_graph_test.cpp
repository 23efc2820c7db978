// Operations between ranks as part of a graph: each launch repeats them, while other ranks launch
// graphs or call operations, and a rank that waits in vain ends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/comm_group.h"
#include "device/recording.h"
#include "unit/cuda_host/nccl_ranks.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Tensors of the program below: `own` and `from_other` differ between the ranks.
struct Program {
  Program(CudaDevice& on, const std::shared_ptr<Communicator>& ranks)
      : device(on),
        world(*ranks),
        own(filled(on, 100, static_cast<float>(ranks->rank() + 1))),
        from_other(filled(on, 100, 0)),
        warm(filled(on, 8, 1)) {
    world.open_channels({1 - world.rank()}, false);
    world.all_reduce(warm, ReduceOp::sum).wait();
    run();
  }
  /// own ← the sum of 2 · own; from_other ← twice the other rank's value at that point.
  void run() {
    double_all(device, own);
    world.all_reduce(own, ReduceOp::sum).wait();
    CommHandle in = world.receive(from_other, 1 - world.rank(), Flow::activations);
    CommHandle out = world.send(own, 1 - world.rank(), Flow::activations);
    in.wait();
    double_all(device, from_other);
    out.wait();
  }

  CudaDevice& device;
  Communicator& world;
  Tensor own, from_other, warm;
};

TEST(NcclGraph, EachLaunchDoesTheOperationsAgain) {
  for (uint64_t seed = 0; seed <= 8; ++seed) {
    run_ranks(2, seed, 60, [](CudaDevice& device, const auto& world) {
      Program program(device, world);  // (1 + 2) · 2 = 6
      const auto graph = device.capture([&] { program.run(); });
      EXPECT_EQ(first_of(device, program.own), 6) << "capture does nothing";
      for (const float sum : {24.0f, 96.0f, 384.0f}) {
        device.launch(*graph);
        ASSERT_EQ(first_of(device, program.own), sum);
        ASSERT_EQ(first_of(device, program.from_other), 2 * sum);
        world->all_reduce(program.warm, ReduceOp::max).wait();  // between launches
      }
    });
    if (HasFailure()) return;
  }
}

TEST(NcclGraph, ARankMayCallWhatAnotherLaunches) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    run_ranks(2, seed, 60, [](CudaDevice& device, const auto& world) {
      Program program(device, world);
      if (world->rank() == 0) {
        const auto graph = device.capture([&] { program.run(); });
        device.launch(*graph);
        EXPECT_EQ(first_of(device, program.own), 24);
      } else {
        program.run();
        EXPECT_EQ(first_of(device, program.own), 24);
      }
    });
  }
}

TEST(NcclGraph, LaunchesCountInTheRecord) {
  run_ranks(2, 1, 60, [](CudaDevice& device, const auto& world) {
    Program program(device, world);
    StepRecord record;
    const Recording recording(device, record);
    const auto graph = device.capture([&] { program.run(); });
    EXPECT_EQ(record.collectives().size(), 0u);
    for (int launch = 0; launch < 2; ++launch) device.launch(*graph);
    ASSERT_EQ(record.collectives().size(), 6u);
    EXPECT_EQ(record.collectives()[0].operation, Collective::all_reduce);
    EXPECT_EQ(record.collectives()[3].operation, Collective::all_reduce);
    EXPECT_EQ(record.collectives()[3].wire_bytes, 400);
    EXPECT_GE(record.collectives()[3].completed_at, 0);
    EXPECT_EQ(record.counters().collectives[0].wire_bytes, 800);
  });
}

TEST(NcclGraph, ACapturedOperationHasNoResult) {
  run_ranks(2, 1, 60, [](CudaDevice& device, const auto& world) {
    Program program(device, world);
    const auto graph = device.capture([&] {
      CommHandle handle = world->all_reduce(program.own, ReduceOp::sum);
      EXPECT_THAT([&] { handle.ready(); },
                  ThrowsMessage<CommError>(HasSubstr("no result before a launch")));
      handle.wait();
    });
  });
}

TEST(NcclGraph, GraphsThatDifferBetweenRanksAreAnError) {
  EXPECT_THAT(
      [] {
        run_ranks(2, 1, 60, [](CudaDevice& device, const auto& world) {
          const Tensor tensor = filled(device, 10 + world->rank(), 1), warm = filled(device, 4, 1);
          world->all_reduce(warm, ReduceOp::sum).wait();
          const auto graph =
              device.capture([&] { world->all_reduce(tensor, ReduceOp::sum).wait(); });
          device.launch(*graph);
          first_of(device, tensor);
          world->host().sum(1);
        });
      },
      ThrowsMessage<CommError>(AllOf(HasSubstr("ncclInvalidUsage"), HasSubstr("another rank"))));
}

TEST(NcclGraph, ALaunchThatNobodyJoinsEndsWithTheTimeout) {
  std::string found;
  const auto main = [&found](CudaDevice& device, const std::shared_ptr<Communicator>& world) {
    Program program(device, world);
    const auto graph = device.capture([&] { program.run(); });
    first_of(device, program.own);
    if (world->rank() == 1) {
      try {
        world->host().sum(1);
      } catch (const CommError&) {
      }
      return;
    }
    device.launch(*graph);
    try {
      first_of(device, program.own);
      world->host().sum(1);
    } catch (const CommError& error) {
      found = error.what();
      throw;
    }
  };
  EXPECT_THROW(run_ranks(2, 3, 0.5, main), CommError);
  EXPECT_THAT(found, AllOf(HasSubstr("a graph that begins with all_reduce over world (400 bytes)"),
                           HasSubstr("on rank 0: not complete after 0.5 s")));
}

}  // namespace
}  // namespace viaduct
