// Groups of launches on the double of the runtime: when they become graphs, that other work comes
// between their parts in the order of the program, and what is forgotten after an error.

#include "device/launch_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda_host/graphs.h"
#include "cuda_host/streams.h"
#include "device/cuda/cuda_device.h"
#include "device/recording.h"
#include "unit/cuda_host/constant_tensors.h"

namespace viaduct {
namespace {

using cuda_host::graph_counts;
using cuda_host::reset_runtime;
using test::constants;
using test::first_of;
using test::kCount;

constexpr int kSeeds = 20;

/// x ← factor · x + y, as the launch of an op.
void combine(CudaDevice& device, const Tensor& x, float factor, const Tensor& y,
             int stream = kComputeStream) {
  device.launched(stream);
  float* const to = x.data<float>();
  const float* const from = y.data<float>();
  const auto launch = [&device, to, from, factor, stream] {
    cuda_host::enqueue(device.handle(stream), "combine", [to, from, factor] {
      for (int i = 0; i < kCount; ++i) to[i] = factor * to[i] + from[i];
    });
  };
  KeptLaunches* const kept = device.kept_launches();
  if (kept == nullptr || stream != kComputeStream) return launch();
  kept->note(to);
  kept->note(from);
  kept->note(factor);
  kept->add(1, launch);
}

/// A device with two tensors, of 1 and 10.
struct Machine {
  explicit Machine(uint64_t seed, int64_t steps_before_captures = 1)
      : to_go(steps_before_captures) {
    reset_runtime({.seed = seed});
    device = make_cuda_device({.poison = true});
    x = device->allocate(DType::f32, {kCount}, {});
    y = device->allocate(DType::f32, {kCount}, {});
    device->copy_from_host(constants(10), y);
  }
  /// A step in which `program` is a group, and x is 1 before it; the result is x.
  template <class F>
  float step(F&& program) {
    LaunchGroups& groups = *launch_groups(*device);
    device->copy_from_host(constants(1), x);
    groups.begin_step(to_go-- <= 0);
    groups.begin_group(false);
    program();
    groups.end_group();
    return first_of(*device, x);
  }

  int64_t to_go;
  std::unique_ptr<CudaDevice> device;
  Tensor x, y;
};

TEST(LaunchGroups, AreGraphsOnceTheyHaveComeBefore) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Machine m(seed);
    for (int step = 0; step < 4; ++step) {
      const float x = m.step([&] {
        combine(*m.device, m.x, 2, m.y);  // 12
        combine(*m.device, m.x, 3, m.y);  // 46
      });
      EXPECT_EQ(x, 46);
      EXPECT_EQ(graph_counts().launched, step) << "all steps but the first";
    }
    EXPECT_EQ(graph_counts().made, 1);
  }
}

TEST(LaunchGroups, AnotherArgumentIsAnotherGraph) {
  Machine m(1);
  for (int step = 0; step < 6; ++step) {
    const auto factor = static_cast<float>(step / 3);  // 0, 0, 0, 1, 1, 1
    EXPECT_EQ(m.step([&] {
      combine(*m.device, m.x, factor, m.y);
      combine(*m.device, m.x, 1, m.y);
    }),
              20 + factor);
  }
  EXPECT_EQ(graph_counts().made, 2);
  EXPECT_EQ(graph_counts().launched, 4) << "each in all of its steps but the first";
}

TEST(LaunchGroups, WorkThatIsNewInEachStepIsNeverCaptured) {
  Machine m(2);
  for (int step = 0; step < 5; ++step) {
    const auto factor = static_cast<float>(step);
    EXPECT_EQ(m.step([&] {
      combine(*m.device, m.x, factor, m.y);
      combine(*m.device, m.x, 1, m.y);
    }),
              20 + factor);
  }
  EXPECT_EQ(graph_counts().made, 0);
}

TEST(LaunchGroups, OtherStreamsComeBetweenTheirParts) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Machine m(seed);
    const int side = m.device->stream("side");
    for (int step = 0; step < 3; ++step) {
      const float x = m.step([&] {
        combine(*m.device, m.x, 2, m.y);
        combine(*m.device, m.x, 1, m.y);  // 22
        m.device->wait(side, m.device->record_event(kComputeStream));
        combine(*m.device, m.x, 2, m.y, side);  // 54
        m.device->wait(kComputeStream, m.device->record_event(side));
        combine(*m.device, m.x, 2, m.y);
        combine(*m.device, m.x, 1, m.y);  // 128
      });
      ASSERT_EQ(x, 128) << seed;
    }
    EXPECT_EQ(graph_counts().made, 1) << "of two parts that do the same";
    EXPECT_EQ(graph_counts().launched, 4);
  }
}

TEST(LaunchGroups, TheHostReadsWhatComesBefore) {
  Machine m(3);
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(m.step([&] {
      combine(*m.device, m.x, 2, m.y);
      combine(*m.device, m.x, 1, m.y);
      EXPECT_EQ(first_of(*m.device, m.x), 22);
      m.device->copy_from_host(constants(5), m.x);
      combine(*m.device, m.x, 1, m.y);
    }),
              15);
  }
  EXPECT_EQ(graph_counts().made, 1) << "one launch is no graph";
}

TEST(LaunchGroups, MemoryThatIsFreedInsideIsUsedAgain) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Machine m(seed);
    for (int step = 0; step < 3; ++step) {
      const float x = m.step([&] {
        for (int round = 0; round < 3; ++round) {
          const Tensor scratch = m.device->allocate(DType::f32, {kCount}, MemoryTag::workspace);
          m.device->launched(kComputeStream);
          m.device->copy(m.y, scratch, kComputeStream);
          combine(*m.device, scratch, 1, m.y);  // 20
          combine(*m.device, m.x, 1, scratch);
        }
      });
      ASSERT_EQ(x, 61);
    }
    EXPECT_GT(graph_counts().made, 0);
  }
}

TEST(LaunchGroups, GraphsThatAStepDoesNotLaunchAreDropped) {
  Machine m(4);
  const auto twice = [&] {
    combine(*m.device, m.x, 2, m.y);
    combine(*m.device, m.x, 3, m.y);
  };
  for (int step = 0; step < 2; ++step) m.step(twice);
  EXPECT_EQ(graph_counts().made, 1);
  for (int step = 0; step < 2; ++step) m.step([] {});
  m.step(twice);
  EXPECT_EQ(graph_counts().made, 1) << "seen for the first time again";
  m.step(twice);
  EXPECT_EQ(graph_counts().made, 2);
}

TEST(LaunchGroups, TheFirstPartAlone) {
  Machine m(5);
  LaunchGroups& groups = *launch_groups(*m.device);
  for (int step = 0; step < 3; ++step) {
    m.device->copy_from_host(constants(1), m.x);
    groups.begin_step(step > 0);
    groups.begin_group(true);
    combine(*m.device, m.x, 2, m.y);
    combine(*m.device, m.x, 1, m.y);
    EXPECT_EQ(first_of(*m.device, m.x), 22);
    EXPECT_EQ(m.device->kept_launches(), nullptr) << "launches are made at once";
    combine(*m.device, m.x, 1, m.y);
    combine(*m.device, m.x, 1, m.y);
    groups.end_group();
    EXPECT_EQ(first_of(*m.device, m.x), 42);
  }
  EXPECT_EQ(graph_counts().made, 1);
}

TEST(LaunchGroups, WhatIsDroppedIsNotLaunched) {
  Machine m(6);
  LaunchGroups& groups = *launch_groups(*m.device);
  m.device->copy_from_host(constants(1), m.x);
  groups.begin_group(false);
  combine(*m.device, m.x, 2, m.y);
  groups.drop_group();
  EXPECT_EQ(first_of(*m.device, m.x), 1);
}

TEST(LaunchGroups, TheRecordHasTheLaunchesOfTheHost) {
  Machine m(7);
  StepRecord record;
  const Recording recording(*m.device, record);
  for (int step = 0; step < 2; ++step)
    m.step([&] {
      combine(*m.device, m.x, 2, m.y);
      combine(*m.device, m.x, 3, m.y);
      first_of(*m.device, m.x);
      combine(*m.device, m.x, 3, m.y);
    });
  std::vector<std::pair<std::string, int>> launches;
  for (const OpEntryRecord& op : record.ops()) launches.emplace_back(op.op, op.host_launches());
  using Launch = std::pair<std::string, int>;
  EXPECT_THAT(launches, testing::ElementsAre(Launch("launch", 2), Launch("launch", 1),
                                             Launch("graph", 1), Launch("launch", 1)));
}

}  // namespace
}  // namespace viaduct
