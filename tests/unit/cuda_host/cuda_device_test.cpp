// The cuda device on the double of the runtime.

#include "device/cuda/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "cuda_host/streams.h"
#include "device/recording.h"

namespace viaduct {
namespace {

using cuda_host::reset_runtime;
using cuda_host::runtime_counts;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int kSeeds = 30;

Tensor numbers(int64_t count, float first) {
  const Tensor host = host_tensor(DType::f32, {count});
  std::iota(host.data<float>(), host.data<float>() + count, first);
  return host;
}

std::vector<float> on_host(Device& device, const Tensor& tensor) {
  const Tensor host = host_tensor(tensor.dtype(), tensor.shape());
  device.copy_to_host(tensor, host);
  return {host.data<float>(), host.data<float>() + host.elements()};
}

/// Adds 1 to each number on a stream, as a kernel launch would.
void add_one(CudaDevice& device, const Tensor& tensor, int stream) {
  device.launched(stream);
  float* data = tensor.data<float>();
  cuda_host::enqueue(device.handle(stream), "add one", [data, count = tensor.elements()] {
    for (int64_t i = 0; i < count; ++i) data[i] += 1;
  });
}

TEST(CudaDevice, CopiesThereAndBackWhileTheHostReusesItsMemory) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    reset_runtime({.seed = seed, .guard = true});
    const auto device = make_cuda_device({.poison = true});
    const Tensor host = numbers(1000, 1), there = device->allocate(DType::f32, {1000}, {});
    device->copy_from_host(host, there);
    std::fill_n(host.data<float>(), 1000, -1.0f);
    add_one(*device, there, kComputeStream);
    const std::vector<float> back = on_host(*device, there);
    ASSERT_EQ(back.front(), 2);
    ASSERT_EQ(back.back(), 1001);
  }
}

/// The result of compute and a side stream on one tensor, with and without the wait that orders
/// them.
int wrong_with(bool compute_waits, bool side_waits) {
  int wrong = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    reset_runtime({.seed = seed});
    const auto device = make_cuda_device({.poison = true});
    const int side = device->stream("side");
    const Tensor x = device->allocate(DType::f32, {64}, {});
    device->copy_from_host(numbers(64, 0), x);
    for (int round = 0; round < 5; ++round) {
      if (side_waits || round == 0) device->wait(side, device->record_event(kComputeStream));
      add_one(*device, x, side);
      if (compute_waits) device->wait(kComputeStream, device->record_event(side));
      const Tensor copy = device->allocate(DType::f32, {64}, {});
      device->launched(kComputeStream);
      device->copy(x, copy, kComputeStream);
      device->launched(kComputeStream);
      device->copy(copy, x, kComputeStream);
    }
    device->wait(kComputeStream, device->record_event(side));
    wrong += on_host(*device, x)[1] != 6;
  }
  return wrong;
}

TEST(CudaDevice, WaitsOrderStreamsAndMissingOnesShow) {
  EXPECT_EQ(wrong_with(true, true), 0);
  EXPECT_GT(wrong_with(false, true), 0);
  EXPECT_GT(wrong_with(true, false), 0);
}

TEST(CudaDevice, AWaitForAnOlderEventDoesNotWaitForLaterWork) {
  reset_runtime({.seed = 7});
  const auto device = make_cuda_device();
  const int side = device->stream("side");
  const Tensor x = device->allocate(DType::f32, {8}, {});
  device->copy_from_host(numbers(8, 0), x);
  device->wait(side, device->record_event(kComputeStream));
  add_one(*device, x, side);
  const Event first = device->record_event(side);
  bool later = false;
  device->launched(side);
  CUstream_st* handle = device->handle(side);
  device->wait_host(first);
  cuda_host::enqueue(handle, "later", [&] { later = true; });
  int early = 0;
  for (int i = 0; i < 20; ++i) {
    add_one(*device, x, side);
    const Event older = device->record_event(side);
    bool ran = false;
    device->launched(side);
    cuda_host::enqueue(device->handle(side), "later", [&ran] { ran = true; });
    device->wait_host(older);
    early += ran ? 0 : 1;
    device->finish();
  }
  EXPECT_GT(early, 0) << "the host waited for work after the event each time";
  EXPECT_TRUE(later);
}

TEST(CudaDevice, MemoryIsUsedAgainInTheOrderOfCompute) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    reset_runtime({.seed = seed});
    const auto device = make_cuda_device({.poison = true});
    const int side = device->stream("side");
    const Tensor out = device->allocate(DType::f32, {256}, {});
    {
      const Tensor x = device->allocate(DType::f32, {256}, {});
      device->copy_from_host(numbers(256, 5), x);
      device->wait(side, device->record_event(kComputeStream));
      device->launched(side);
      device->copy(x, out, side);
      device->hold(side, x);
    }
    // Without the hold this allocation would reuse x's memory while the side stream still reads it.
    const Tensor y = device->allocate(DType::f32, {256}, {});
    device->copy_from_host(numbers(256, 900), y);
    device->wait(kComputeStream, device->record_event(side));
    ASSERT_EQ(on_host(*device, out)[0], 5) << "seed " << seed;
  }
}

TEST(CudaDevice, StatisticsAreExactBytesAndBlocksAreKept) {
  reset_runtime({});
  const auto device = make_cuda_device();
  const int64_t before = runtime_counts().allocations;
  {
    const Tensor a = device->allocate(DType::f32, {250}, MemoryTag::weights);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a.raw()) % 256, 0u);
    EXPECT_EQ(device->memory().bytes_in_use, 1000);
    EXPECT_EQ(device->memory().bytes_by_tag[static_cast<size_t>(MemoryTag::weights)], 1000);
  }
  EXPECT_EQ(device->memory().bytes_in_use, 0);
  EXPECT_EQ(device->memory().peak_bytes, 1000);
  const Tensor b = device->allocate(DType::f32, {256}, MemoryTag::moments);
  EXPECT_EQ(runtime_counts().allocations - before, 1);
  EXPECT_EQ(device->memory().system_allocations, 1);
}

TEST(CudaDevice, APlanIsOneAllocation) {
  reset_runtime({});
  const auto device = make_cuda_device();
  MemoryPlan plan;
  plan.arena_bytes = 4096;
  plan.resident = {{MemoryTag::weights, 1000, 0}};
  plan.sequences[static_cast<size_t>(MemorySequence::step)] = {{MemoryTag::activations, 400, 1024},
                                                               {MemoryTag::activations, 800, 2048}};
  const int64_t before = runtime_counts().allocations;
  device->use_plan(plan);
  const SequenceScope step(*device, MemorySequence::step);
  const Tensor w = device->allocate(DType::u8, {1000}, MemoryTag::weights);
  const Tensor a = device->allocate(DType::u8, {400}, MemoryTag::activations);
  const Tensor b = device->allocate(DType::u8, {800}, MemoryTag::activations);
  EXPECT_EQ(static_cast<char*>(a.raw()) - static_cast<char*>(w.raw()), 1024);
  EXPECT_EQ(static_cast<char*>(b.raw()) - static_cast<char*>(w.raw()), 2048);
  EXPECT_EQ(runtime_counts().allocations - before, 1);
  EXPECT_EQ(device->memory().unplanned_allocations, 0);
  const Tensor more = device->allocate(DType::u8, {10}, MemoryTag::other);
  EXPECT_EQ(device->memory().unplanned_bytes, 10);
}

TEST(CudaDevice, OutOfMemorySaysWhoHoldsWhat) {
  reset_runtime({.memory_bytes = 1 << 20});
  const auto device = make_cuda_device();
  const Tensor w = device->allocate(DType::u8, {600'000}, MemoryTag::weights);
  { const Tensor freed = device->allocate(DType::u8, {200'000}, MemoryTag::activations); }
  EXPECT_THAT([&] { device->allocate(DType::u8, {500'000}, MemoryTag::moments); },
              ThrowsMessage<DeviceError>(AllOf(HasSubstr("500000 bytes (moments)"),
                                               HasSubstr("weights 600000"),
                                               HasSubstr("of 1048576 bytes free"))));
  // Free blocks of other sizes are returned to the runtime before memory runs out.
  const Tensor fits = device->allocate(DType::u8, {300'000}, MemoryTag::moments);
  EXPECT_EQ(device->memory().bytes_in_use, 900'000);
}

TEST(CudaDevice, ReasonsForHavingNone) {
  reset_runtime({.driver = 0, .no_device = 35});
  EXPECT_THAT([] { make_cuda_device(); },
              ThrowsMessage<DeviceError>(
                  AllOf(HasSubstr("found no driver"), HasSubstr("needed one for CUDA 13.0"))));
  reset_runtime({.driver = 11080, .no_device = 35});
  EXPECT_THAT([] { make_cuda_device(); },
              ThrowsMessage<DeviceError>(HasSubstr("found a driver for CUDA 11.8")));
  reset_runtime({.no_device = 100});
  EXPECT_THAT([] { make_cuda_device(); }, ThrowsMessage<DeviceError>(HasSubstr("found no GPU")));
  reset_runtime({.compute_capability = 75});
  EXPECT_THAT([] { make_cuda_device(); },
              ThrowsMessage<DeviceError>(HasSubstr("compute capability 7.5, needed 8.0")));
  reset_runtime({.devices = 2});
  EXPECT_THAT([] { use_gpu(2); }, ThrowsMessage<DeviceError>(HasSubstr("this process sees 2")));
}

struct Counted {
  int value = 0;
};

TEST(CudaDevice, KeepsOneStateOfEachType) {
  reset_runtime({});
  const auto device = make_cuda_device();
  device->state<Counted>().value = 3;
  device->state<std::vector<int>>().push_back(1);
  EXPECT_EQ(device->state<Counted>().value, 3);
  EXPECT_EQ(device->state<std::vector<int>>().size(), 1u);
}

TEST(CudaDevice, HostReadsAreCountedAndNothingElseWaits) {
  reset_runtime({.seed = 2});
  const auto device = make_cuda_device();
  StepRecord record;
  const Recording recording(*device, record);
  const Tensor x = device->allocate(DType::f32, {4}, {});
  device->copy_from_host(numbers(4, 3), x);
  const int side = device->stream("side");
  device->wait(side, device->record_event(kComputeStream));
  add_one(*device, x, side);
  device->wait(kComputeStream, device->record_event(side));
  EXPECT_EQ(runtime_counts().host_waits, 0);
  EXPECT_EQ(host_read(*device, x, "a test", 0), 4);
  EXPECT_EQ(runtime_counts().host_waits, 1);
}

}  // namespace
}  // namespace viaduct
