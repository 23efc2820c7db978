// Ranks that never join an operation, and ranks that join another one, are reported.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "comm/world.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// The error message of a failing run of `ranks`.
std::string failure_of(int ranks, double timeout_seconds, RankMain program) {
  try {
    run_thread_ranks(ranks, {.timeout_seconds = timeout_seconds}, program);
  } catch (const CommError& error) {
    return error.what();
  }
  return "no failure";
}

Tensor f32(int64_t elements) {
  return host_tensor(DType::f32, {elements});
}

TEST(ThreadTimeout, NamesOperationGroupBytesAndTheRanksThatDidNotCome) {
  std::atomic<bool> over{false};
  const std::string failure = failure_of(4, 0.05, [&](auto world) {
    if (world->rank() == 0) {  // only watches
      while (!over.load()) std::this_thread::yield();
      return;
    }
    const auto three = world->split({1, 2, 3}, "three");
    if (three->rank() == 0) {
      try {
        three->all_reduce(f32(25), ReduceOp::sum).wait();
      } catch (...) {
        over.store(true);
        throw;
      }
    }
    while (!over.load()) std::this_thread::yield();
  });
  EXPECT_EQ(failure,
            "rank 1: all_reduce over three (3 ranks, 100 bytes) on rank 0: after 0.05 s rank 1 "
            "(world rank 2), rank 2 (world rank 3) did not come");
}

TEST(ThreadTimeout, OfAMessageNamesTheOtherEnd) {
  std::atomic<bool> over{false};
  const std::string failure = failure_of(3, 0.05, [&](auto world) {
    if (world->rank() == 2) {
      try {
        world->receive(f32(8), 1, Flow::gradients).wait();
      } catch (...) {
        over.store(true);
        throw;
      }
    }
    while (!over.load()) std::this_thread::yield();
  });
  EXPECT_EQ(failure,
            "rank 2: receive over world (3 ranks, 32 bytes) on rank 2: after 0.05 s rank 1 did not "
            "come");
}

TEST(ThreadTimeout, ARankThatHasEndedIsNotWaitedFor) {
  EXPECT_THAT(failure_of(3, 3600,
                         [](auto world) {
                           if (world->rank() != 1) world->barrier();
                         }),
              HasSubstr("barrier over world (3 ranks, 0 bytes) on rank"));
  EXPECT_THAT(failure_of(3, 3600,
                         [](auto world) {
                           if (world->rank() != 1) world->barrier();
                         }),
              HasSubstr("rank 1 ended without it"));
}

TEST(ThreadMismatch, OfCollectivesSizesDtypesReductionsAndRoots) {
  EXPECT_THAT(failure_of(2, 60,
                         [](auto world) {
                           if (world->rank() == 0)
                             world->all_reduce(f32(4), ReduceOp::sum).wait();
                           else
                             world->barrier();
                         }),
              HasSubstr("rank 0 calls all_reduce (sum) of f32 [4], rank 1 calls barrier"));
  EXPECT_THAT(failure_of(3, 60,
                         [](auto world) {
                           const int64_t size = world->rank() == 2 ? 5 : 4;
                           world->all_reduce(f32(size), ReduceOp::sum).wait();
                         }),
              HasSubstr("rank 0 calls all_reduce (sum) of f32 [4], rank 2 calls all_reduce (sum) "
                        "of f32 [5]"));
  EXPECT_THAT(failure_of(2, 60,
                         [](auto world) {
                           const DType dtype = world->rank() == 0 ? DType::f32 : DType::bf16;
                           world->broadcast(host_tensor(dtype, {4}), 0).wait();
                         }),
              AllOf(HasSubstr("of f32 [4]"), HasSubstr("of bf16 [4]")));
  EXPECT_THAT(failure_of(2, 60,
                         [](auto world) {
                           const bool first = world->rank() == 0;
                           world->all_reduce(f32(4), first ? ReduceOp::max : ReduceOp::sum).wait();
                         }),
              AllOf(HasSubstr("all_reduce (max)"), HasSubstr("all_reduce (sum)")));
  EXPECT_THAT(failure_of(2, 60, [](auto world) { world->broadcast(f32(4), world->rank()).wait(); }),
              AllOf(HasSubstr("broadcast from 0"), HasSubstr("broadcast from 1")));
}

TEST(ThreadMismatch, OfRowsAndMessages) {
  EXPECT_THAT(failure_of(2, 60,
                         [](auto world) {
                           const std::vector<int64_t> send{1, 1}, receive{1, 2};
                           world->all_to_all(f32(2), f32(3), send, receive).wait();
                         }),
              HasSubstr("rank 1 sends 1 row to rank 0, which expects 2"));
  EXPECT_THAT(failure_of(2, 60,
                         [](auto world) {
                           if (world->rank() == 0)
                             world->send(f32(4), 1, Flow::activations).wait();
                           else
                             world->receive(f32(5), 0, Flow::activations).wait();
                         }),
              HasSubstr("send of f32 [4] meets receive of f32 [5]"));
}

// The ranks leave the mismatched operation; its buffers are unchanged.
TEST(ThreadMismatch, TouchesNoBuffer) {
  run_thread_ranks(2, {.timeout_seconds = 60}, [](auto world) {
    const Tensor tensor = f32(world->rank() == 0 ? 4 : 1000000);
    CommHandle handle = world->all_reduce(tensor, ReduceOp::sum);
    tensor.data<float>()[0] = 7;
    EXPECT_THROW(handle.wait(), CommError);
    EXPECT_EQ(tensor.data<float>()[0], 7);
  });
}

TEST(ThreadMismatch, OfNamesOfOneSplit) {
  EXPECT_THAT(failure_of(2, 60,
                         [](auto world) {
                           world->split({0, 1}, world->rank() == 0 ? "tp" : "cp");
                           world->barrier();
                         }),
              AllOf(HasSubstr("tp"), HasSubstr("cp")));
}

}  // namespace
}  // namespace viaduct
