// Graphs of the cuda device on the double of the runtime: what they run and when, their order with
// other streams, their memory, and the calls that a capture refuses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "cuda_host/streams.h"
#include "device/cuda/cuda_device.h"
#include "device/recording.h"
#include "unit/cuda_host/constant_tensors.h"

namespace viaduct {
namespace {

using cuda_host::reset_runtime;
using test::constants;
using test::first_of;
using test::kCount;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int kSeeds = 30;

/// x ← factor · x + y on a stream, as a kernel launch would.
void combine(CudaDevice& device, const Tensor& x, float factor, const Tensor& y, int stream) {
  device.launched(stream);
  float* to = x.data<float>();
  const float* from = y.data<float>();
  cuda_host::enqueue(device.handle(stream), "combine", [to, from, factor] {
    for (int i = 0; i < kCount; ++i) to[i] = factor * to[i] + from[i];
  });
}

struct Tensors {
  explicit Tensors(CudaDevice& device)
      : x(device.allocate(DType::f32, {kCount}, {})), y(device.allocate(DType::f32, {kCount}, {})) {
    device.copy_from_host(constants(1), x);
    device.copy_from_host(constants(10), y);
  }
  Tensor x, y;
};

/// The number of `kSeeds` with another result than x = y + 2x + y twice, where a side stream adds
/// in the middle: 1 and 10 make 22; 22 and 100 make 244.
int wrong_with(bool side_waits, bool compute_waits) {
  int wrong = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    reset_runtime({.seed = seed});
    const auto device = make_cuda_device({.poison = true});
    const int side = device->stream("side");
    const Tensors t(*device);
    device->wait(side, device->record_event(kComputeStream));
    combine(*device, t.y, 0, t.y, side);  // y is unchanged; the stream has been used
    const auto graph = device->capture([&] {
      combine(*device, t.x, 2, t.y, kComputeStream);
      if (side_waits) device->wait(side, device->record_event(kComputeStream));
      combine(*device, t.y, 1, t.x, side);
      if (compute_waits) device->wait(kComputeStream, device->record_event(side));
      combine(*device, t.x, 0, t.y, kComputeStream);
    });
    EXPECT_EQ(first_of(*device, t.x), 1) << "capture does nothing";
    device->launch(*graph);
    device->copy_from_host(constants(100), t.y);
    device->launch(*graph);
    wrong += first_of(*device, t.x) != 244;
  }
  return wrong;
}

TEST(CudaGraph, DoesItsWorkAtEachLaunchInItsOwnOrderOfStreams) {
  EXPECT_EQ(wrong_with(true, true), 0);
}

TEST(CudaGraph, AMissingWaitInsideIsWrongWithSomeSeed) {
  EXPECT_GT(wrong_with(false, true), 2);
  EXPECT_GT(wrong_with(true, false), 2);
}

TEST(CudaGraph, SideStreamsComeBehindALaunchAndBeforeIt) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    reset_runtime({.seed = seed});
    const auto device = make_cuda_device({.poison = true});
    const int side = device->stream("side");
    const Tensors t(*device);
    device->wait(side, device->record_event(kComputeStream));
    combine(*device, t.x, 3, t.y, side);  // 13
    Event inside;
    const auto graph = device->capture([&] {
      combine(*device, t.x, 2, t.y, kComputeStream);
      inside = device->record_event(kComputeStream);
      device->wait(side, inside);  // so that the runtime does not perform the wait below
    });
    combine(*device, t.x, 1, t.y, side);  // 23
    device->launch(*graph);               // 56
    device->wait(side, inside);
    combine(*device, t.x, 10, t.y, side);
    device->wait(kComputeStream, device->record_event(side));
    ASSERT_EQ(first_of(*device, t.x), 570) << seed;
  }
}

TEST(CudaGraph, HasMemoryThatNobodyElseGets) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    reset_runtime({.seed = seed});
    const auto device = make_cuda_device({.poison = true});
    const Tensors t(*device);
    const auto graph = device->capture([&] {
      for (int round = 0; round < 3; ++round) {
        const Tensor scratch = device->allocate(DType::f32, {kCount}, MemoryTag::workspace);
        combine(*device, scratch, 0, t.y, kComputeStream);
        combine(*device, t.x, 1, scratch, kComputeStream);
      }
    });
    const Tensor later = device->allocate(DType::f32, {kCount}, {});
    device->copy_from_host(constants(7), later);
    device->launch(*graph);
    EXPECT_EQ(first_of(*device, later), 7);
  }
}

TEST(CudaGraph, CountsInTheRecordAndInThePeak) {
  reset_runtime({.seed = 1});
  const auto device = make_cuda_device();
  const auto graph = device->capture([&] {
    const Tensor scratch = device->allocate(DType::f32, {1000}, MemoryTag::workspace);
    device->launched(kComputeStream);
    device->record()->op({.op = "one", .kernel = "of", .launches = 3, .cost = {.bytes_read = 5}});
  });
  device->reset_peak();
  StepRecord record;
  const Recording recording(*device, record);
  device->launch(*graph);
  ASSERT_EQ(record.ops().size(), 1u);
  EXPECT_EQ(record.ops()[0].op, "graph");
  EXPECT_EQ(record.ops()[0].launches, 1);
  EXPECT_EQ(record.ops()[0].cost.bytes_read, 5);
  EXPECT_EQ(device->memory().bytes_in_use, 0);
  EXPECT_EQ(device->memory().peak_bytes, 4000);
  EXPECT_EQ(device->memory().peak_bytes_by_tag[static_cast<size_t>(MemoryTag::workspace)], 4000);
}

TEST(CudaGraph, RefusesTheHostAndWhatItHolds) {
  reset_runtime({.seed = 1});
  const auto device = make_cuda_device();
  const Tensors t(*device);
  const auto refused = [&](const std::function<void()>& program, const std::string& why) {
    EXPECT_THAT([&] { device->capture(program); }, ThrowsMessage<DeviceError>(HasSubstr(why)));
  };
  refused([&] { device->copy_from_host(constants(0), t.x); },
          "a copy to the GPU is part of a step that is captured");
  refused([&] { first_of(*device, t.x); }, "a copy to the host is part of a step");
  refused([&] { device->wait_host(device->record_event(kComputeStream)); }, "a wait of the host");
  Tensor kept, freed = device->allocate(DType::f32, {8}, MemoryTag::batch);
  refused([&] { kept = device->allocate(DType::f32, {4}, MemoryTag::batch); },
          "holds 16 bytes (batch) at its end");
  refused([&] { freed = Tensor(); }, "frees 32 bytes (batch)");
  // After each refusal the device works as before.
  combine(*device, t.x, 2, t.y, kComputeStream);
  EXPECT_EQ(first_of(*device, t.x), 12);
}

TEST(Device, TheCpuKeepsNoWork) {
  const auto device = make_cpu_device(1);
  EXPECT_THAT([&] { device->capture([] {}); },
              ThrowsMessage<DeviceError>(HasSubstr("runs its work immediately")));
}

}  // namespace
}  // namespace viaduct
