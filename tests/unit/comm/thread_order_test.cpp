// Many operations of several communicators at once: their orders are independent, messages are
// first in, first out, splits of splits match, and there are no unnecessary waits.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <random>
#include <thread>

#include "base/error.h"
#include "comm/world.h"

namespace viaduct {
namespace {

Tensor filled(int64_t elements, float value) {
  Tensor tensor = host_tensor(DType::f32, {elements});
  std::fill_n(tensor.data<float>(), elements, value);
  return tensor;
}

bool holds(const Tensor& tensor, float value) {
  const float* data = tensor.data<float>();
  return std::all_of(data, data + tensor.elements(), [&](float x) { return x == value; });
}

struct InFlight {
  CommHandle handle;
  Tensor tensor;
  float expected;
};

// Each rank performs the same list of operations on three communicators and waits for each at a
// different point: at once, after some others, in another order, or by polling.
TEST(ThreadOrder, OperationsOnSeveralCommunicatorsInterleaveAtWill) {
  constexpr int kRanks = 4, kOperations = 400;
  run_thread_ranks(kRanks, {.timeout_seconds = 60}, [](auto world) {
    const int rank = world->rank();
    const auto pair = world->split(rank < 2 ? std::vector{0, 1} : std::vector{2, 3}, "pair");
    const auto odd = world->split(rank % 2 == 0 ? std::vector{0, 2} : std::vector{1, 3}, "odd");
    const std::array<std::shared_ptr<Communicator>, 3> groups{world, pair, odd};
    std::mt19937 common(7), own(static_cast<unsigned>(rank));
    std::deque<InFlight> flying;
    const auto land = [&](size_t which) {
      InFlight& operation = flying[which];
      if (own() % 4 == 0)
        while (!operation.handle.ready()) std::this_thread::yield();
      operation.handle.wait();
      EXPECT_TRUE(holds(operation.tensor, operation.expected));
      flying.erase(flying.begin() + static_cast<std::ptrdiff_t>(which));
    };
    for (int i = 0; i < kOperations; ++i) {
      const size_t which = common() % 3;
      const int64_t size = common() % 10 == 0 ? 50000 : static_cast<int64_t>(common() % 200);
      const bool sums = common() % 2 == 0;
      const auto& group = groups[which];
      const int n = group->size();
      const Tensor tensor = filled(size, static_cast<float>(i + group->rank()));
      if (sums) {
        flying.push_back({group->all_reduce(tensor, ReduceOp::sum), tensor,
                          static_cast<float>(n * i + n * (n - 1) / 2)});
      } else {
        const int root = i % n;
        flying.push_back({group->broadcast(tensor, root), tensor, static_cast<float>(i + root)});
      }
      while (!flying.empty() && own() % 3 == 0) land(own() % flying.size());
    }
    while (!flying.empty()) land(own() % flying.size());
  });
}

TEST(ThreadOrder, MessagesOfAFlowArriveInOrderAndFlowsAreIndependent) {
  run_thread_ranks(2, {.timeout_seconds = 60}, [](auto world) {
    const int other = 1 - world->rank();
    const float mine = static_cast<float>(100 * world->rank());
    std::vector<InFlight> flying;
    // Both send first: with blocking sends neither would reach its receive.
    for (int i = 0; i < 20; ++i) {
      const Flow flow = i % 3 == 0 ? Flow::gradients : Flow::activations;
      const Tensor tensor = filled(1 + i * 2000, mine + static_cast<float>(i));
      flying.push_back({world->send(tensor, other, flow), tensor, mine + static_cast<float>(i)});
    }
    // The gradients are received first, although they were sent between the activations.
    for (const bool gradients : {true, false}) {
      for (int i = 0; i < 20; ++i) {
        if ((i % 3 == 0) != gradients) continue;
        const Tensor tensor = host_tensor(DType::f32, {1 + i * 2000});
        const Flow flow = gradients ? Flow::gradients : Flow::activations;
        world->receive(tensor, other, flow).wait();
        EXPECT_TRUE(holds(tensor, static_cast<float>(100 * other + i)));
      }
    }
    for (InFlight& operation : flying) {
      operation.handle.wait();
      EXPECT_TRUE(holds(operation.tensor, operation.expected));
    }
  });
}

// A computing rank makes no calls: progress threads advance operations in flight. A communicator
// that works only in `wait` would never be ready here. (Whether a step's exchanges run under its
// kernels: tests/exact/train/overlap_progress_test.cpp.)
TEST(ThreadOrder, WhatIsUnderWayGetsOnWhileNobodyWaits) {
  run_thread_ranks(3, {.timeout_seconds = 60}, [](auto world) {
    const Tensor large = filled(200000, 1), small = filled(10, 1);
    CommHandle handles[]{world->all_reduce(large, ReduceOp::sum),
                         world->all_reduce(small, ReduceOp::sum)};
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (CommHandle& handle : handles) {
      while (!handle.ready() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      EXPECT_TRUE(handle.ready());
      handle.wait();
    }
    EXPECT_TRUE(holds(large, 3) && holds(small, 3));
  });
}

TEST(ThreadOrder, SendIsCompleteOnlyWhenReceived) {
  run_thread_ranks(2, {.timeout_seconds = 60}, [](auto world) {
    const Tensor tensor = filled(100, 3);
    if (world->rank() == 0) {
      CommHandle handle = world->send(tensor, 1, Flow::activations);
      EXPECT_FALSE(handle.ready());  // rank 1 receives after the barrier
      world->barrier();
      handle.wait();
      tensor.data<float>()[0] = -1;  // the message has been read
    } else {
      world->barrier();
      const Tensor in = host_tensor(DType::f32, {100});
      world->receive(in, 0, Flow::activations).wait();
      EXPECT_TRUE(holds(in, 3));
    }
  });
}

TEST(ThreadOrder, GroupsOfSplitsOfSplits) {
  run_thread_ranks(5, {.timeout_seconds = 60}, [](auto world) {
    const int rank = world->rank();
    if (rank == 4) {
      const auto alone = world->split({4}, "alone");
      EXPECT_EQ(alone->size(), 1);
      world->barrier();
      return;
    }
    const auto four = world->split({0, 1, 2, 3}, "four");
    const auto again = world->split({0, 1, 2, 3}, "again");
    const auto outer = four->split(rank % 3 == 0 ? std::vector{0, 3} : std::vector{1, 2}, "outer");
    EXPECT_EQ(outer->name(), "outer");
    EXPECT_EQ(outer->rank(), rank / 2);
    const Tensor a = filled(3, static_cast<float>(rank)), b = filled(3, 10);
    CommHandle first = again->all_reduce(b, ReduceOp::sum);
    outer->all_reduce(a, ReduceOp::sum).wait();
    EXPECT_TRUE(holds(a, 3));  // 0 + 3, 1 + 2
    const Tensor c = filled(2, static_cast<float>(rank));
    four->broadcast(c, 2).wait();  // does not match that of `again`, a group of the same size
    EXPECT_TRUE(holds(c, 2));
    first.wait();
    EXPECT_TRUE(holds(b, 40));
    world->barrier();
  });
}

TEST(ThreadOrder, AHandleThatIsDroppedHasBeenWaitedFor) {
  run_thread_ranks(3, {.timeout_seconds = 60}, [](auto world) {
    const Tensor tensor = filled(70000, 1);
    world->all_reduce(tensor, ReduceOp::sum);
    EXPECT_TRUE(holds(tensor, 3));
  });
}

}  // namespace
}  // namespace viaduct
