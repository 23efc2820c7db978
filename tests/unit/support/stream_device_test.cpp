// The device with seeded streams detects missing waits, memory that is freed too early, and streams
// that wait for each other.

#include "support/stream_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "comm/world.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/elementwise.h"
#include "support/instruction_set.h"
#include "support/stream_ops.h"

namespace viaduct {
namespace {

using namespace test;
using testing::HasSubstr;

constexpr uint64_t kSeeds = 20;

OpTable kernels() {
  return cpu_ops(instruction_set());
}

/// The number of seeds that give another value than `expected`.
template <class Program>
int wrong(double expected, Program&& program) {
  const OpTable ops = queued(kernels());
  int count = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    StreamDevice device(seed, kernels());
    OpContext compute{device, ops}, side{device, ops, device.stream("side")};
    const Tensor out = device.allocate(DType::f32, {8}, MemoryTag::other);
    program(device, compute, side, out);
    count += host_read(device, out, "result", 0) != expected;
  }
  return count;
}

Tensor temporary(OpContext& context) {
  return context.allocate(DType::f32, {8}, MemoryTag::activations);
}

TEST(StreamDevice, AMissingWaitShows) {
  const auto program = [](bool waits) {
    return [waits](StreamDevice& device, OpContext& compute, OpContext& side, const Tensor& out) {
      const Tensor x = temporary(compute);
      fill(side, {x, 3});  // runs after compute without a wait
      if (waits) device.wait(kComputeStream, device.record_event(side.stream));
      copy(compute, {x, out});
    };
  };
  EXPECT_EQ(wrong(3, program(true)), 0);
  EXPECT_GT(wrong(3, program(false)), 0);
}

TEST(StreamDevice, WhatASideStreamUsesIsHeldAndAnEarlyFreeShows) {
  const auto program = [](bool freed_early) {
    return [freed_early](StreamDevice& device, OpContext& compute, OpContext& side,
                         const Tensor& out) {
      fill(compute, {out, 0});
      Tensor x = temporary(compute);
      fill(compute, {x, 5});
      if (freed_early) {
        // Like a launch that does not hold its tensors.
        const auto* from = x.data<float>();
        auto* to = out.data<float>();
        device.wait(side.stream, device.record_event(kComputeStream));
        device.launched(side.stream);
        device.push(side.stream, "copy", [=] { return *to = *from, true; });
      } else {
        copy(side, {x, out});
      }
      x = Tensor();
      const Tensor other = temporary(compute);
      fill(compute, {other, 7});
      device.wait(kComputeStream, device.record_event(side.stream));
    };
  };
  EXPECT_EQ(wrong(5, program(false)), 0);
  EXPECT_GT(wrong(5, program(true)), 0);
}

TEST(StreamDevice, StreamsThatWaitForEachOtherAreReported) {
  StreamDevice device(1, kernels());
  const int a = device.stream("a"), b = device.stream("b");
  const auto ahead = [&](int stream) {
    Event event = device.record_event(stream);
    event.position = 2;
    return event;
  };
  device.wait(a, ahead(b));
  device.wait(b, ahead(a));
  for (const int stream : {a, b})
    device.launched(stream), device.push(stream, "work", [] { return true; });
  try {
    device.finish();
    ADD_FAILURE() << "nothing was reported";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("streams wait for each other: a at wait for b 2; b at"));
  }
}

TEST(StreamDevice, WhatNeverBecomesReadyIsReported) {
  StreamDevice device(1, kernels(), 0.05);
  const int a = device.stream("a");
  device.launched(a);
  device.push(a, "receive", [] { return false; });
  try {
    device.finish();
    ADD_FAILURE() << "nothing was reported";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("streams never become ready: a at receive"));
  }
}

TEST(StreamDevice, RanksDoNotHoldEachOtherUp) {
  run_thread_ranks(2, {}, [&](std::shared_ptr<Communicator> threads) {
    const int me = threads->rank();
    const OpTable ops = queued(kernels());
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      StreamDevice device(seed * 2 + static_cast<uint64_t>(me), kernels());
      const auto world = queued(threads);
      world->record_on(&device);
      OpContext compute{device, ops};
      const Tensor x = temporary(compute), y = temporary(compute), z = temporary(compute);
      fill(compute, {x, me + 1.0});
      fill(compute, {z, me + 10.0});
      // Messages of the flows are posted in a different order on each rank, yet all match.
      CommHandle handles[2];
      const auto gradients = [&] {
        handles[0] =
            me == 0 ? world->send(x, 1, Flow::gradients) : world->receive(y, 0, Flow::gradients);
      };
      const auto activations = [&] {
        handles[1] = me == 0 ? world->send(z, 1, Flow::activations)
                             : world->receive(x, 0, Flow::activations);
      };
      if (me == 0) gradients(), activations();
      if (me == 1) activations(), gradients();
      for (CommHandle& handle : handles) handle.wait();
      world->all_reduce(z, ReduceOp::sum).wait();
      EXPECT_EQ(host_read(device, z, "sum", 0), 21);
      if (me == 1) {
        EXPECT_EQ(host_read(device, x, "activations", 0), 10);
        EXPECT_EQ(host_read(device, y, "gradients", 0), 1);
      }
      device.finish();
    }
  });
}

}  // namespace
}  // namespace viaduct
