// Memory outside of a plan as a range of addresses that grows (device/cuda/growing_memory.h), on
// the doubles of the runtime and of the driver.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "base/error.h"
#include "constant_tensors.h"
#include "cuda_host/streams.h"
#include "device/cuda/cuda_device.h"

namespace viaduct {
namespace {

using namespace test;
using cuda_host::reset_runtime;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kGranule = 64 << 10;  // the double's

Tensor bytes(Device& device, int64_t count, MemoryTag tag = MemoryTag::other) {
  return device.allocate(DType::u8, {count}, tag);
}
char* address(const Tensor& tensor) {
  return static_cast<char*>(tensor.raw());
}

TEST(GrowingMemory, GrowsByTheGranulesThatItNeedsAndMovesNothing) {
  reset_runtime({});
  const auto device = make_cuda_device();
  EXPECT_EQ(device->memory().reserved_bytes, 0);
  const Tensor first = device->allocate(DType::f32, {250}, {});
  device->copy_from_host(constants(3, 250), first);
  EXPECT_EQ(device->memory().reserved_bytes, kGranule);
  // One tensor over several granules: copies go across their borders.
  const int64_t count = 5 * kGranule / 4;
  const Tensor second = device->allocate(DType::f32, {count}, {});
  EXPECT_EQ(address(second) - address(first), 1024);
  device->copy_from_host(constants(4, count), second);
  EXPECT_EQ(device->memory().reserved_bytes, 6 * kGranule);
  EXPECT_EQ(device->memory().system_allocations, 2);
  EXPECT_EQ(device->memory().bytes_in_use, 1000 + 4 * count);
  const Tensor third = bytes(*device, 500);
  EXPECT_EQ(device->memory().reserved_bytes, 6 * kGranule) << "the last granule has room";
  EXPECT_EQ(device->memory().system_allocations, 2);
  const Tensor back = host_tensor(DType::f32, {count});
  device->copy_to_host(second, back);
  EXPECT_EQ(back.data<float>()[count - 1], 4);
  EXPECT_EQ(first_of(*device, first), 3);
}

TEST(GrowingMemory, NeighboursThatAreFreedAreUsedAsOne) {
  for (const bool second_first : {false, true}) {
    reset_runtime({.memory_bytes = 8 * kGranule});
    const auto device = make_cuda_device();
    const Tensor first = bytes(*device, kGranule);
    std::optional<Tensor> second = bytes(*device, kGranule * 5 / 2),
                          third = bytes(*device, kGranule * 5 / 2);
    const Tensor last = bytes(*device, kGranule);
    EXPECT_EQ(device->memory().reserved_bytes, 7 * kGranule);
    char* const at = address(*second);
    if (second_first) second.reset();
    third.reset(), second.reset();
    const Tensor both = bytes(*device, 5 * kGranule);
    EXPECT_EQ(address(both), at);
    EXPECT_EQ(device->memory().reserved_bytes, 7 * kGranule);
    EXPECT_EQ(device->memory().system_allocations, 4) << "nothing more from the system";
  }
}

/// As above, where no neighbours are free: the memory of free ranges moves to other addresses.
TEST(GrowingMemory, FreeMemoryIsUsedElsewhereBeforeThereIsNoMore) {
  reset_runtime({.memory_bytes = 8 * kGranule});
  const auto device = make_cuda_device();
  std::vector<Tensor> all;
  for (int i = 0; i < 8; ++i) all.push_back(bytes(*device, kGranule));
  for (const size_t i : {1, 3, 5}) all[i] = Tensor();
  EXPECT_EQ(device->memory().reserved_bytes, 8 * kGranule);
  const Tensor large = bytes(*device, 3 * kGranule);
  EXPECT_EQ(address(large) - address(all[7]), kGranule);
  EXPECT_EQ(device->memory().reserved_bytes, 8 * kGranule);
  EXPECT_THAT([&] { bytes(*device, 1); }, ThrowsMessage<DeviceError>(HasSubstr("no memory for 1")));
}

TEST(GrowingMemory, WithoutMemoryItSaysWhoHoldsWhatAndKeepsNoPart) {
  reset_runtime({.memory_bytes = 8 * kGranule});
  const auto device = make_cuda_device(), other = make_cuda_device();  // two ranks on a GPU
  const Tensor mine = bytes(*device, 2 * kGranule, MemoryTag::weights);
  const Tensor theirs = bytes(*other, 3 * kGranule);
  EXPECT_THAT([&] { bytes(*device, 4 * kGranule, MemoryTag::moments); },
              ThrowsMessage<DeviceError>(
                  AllOf(HasSubstr("no memory for 262144 bytes (moments)"),
                        HasSubstr("has 196608 of 524288 bytes free"),
                        HasSubstr("reserved 131072 and uses 131072 (weights 131072)"))));
  EXPECT_EQ(device->memory().reserved_bytes, 2 * kGranule);
  const Tensor rest = bytes(*other, 3 * kGranule);
  EXPECT_EQ(other->memory().reserved_bytes, 6 * kGranule);
}

/// Work that was given to a stream may use memory that is freed since; it is unmapped only then.
TEST(GrowingMemory, ReturnsMemoryAfterTheWorkThatUsesIt) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    reset_runtime({.seed = seed, .memory_bytes = 8 * kGranule});
    const auto device = make_cuda_device();
    int64_t sum = 0;
    {
      const Tensor x = bytes(*device, 3 * kGranule);
      device->launched(kComputeStream);
      cuda_host::enqueue(device->handle(kComputeStream), "fill", [data = address(x), &sum] {
        std::fill_n(data, 3 * kGranule, char{1});
        for (int64_t i = 0; i < 3 * kGranule; ++i) sum += data[i];
      });
      EXPECT_THROW(bytes(*device, 9 * kGranule), DeviceError);
    }
    EXPECT_THROW(bytes(*device, 9 * kGranule), DeviceError);
    EXPECT_EQ(sum, 3 * kGranule) << seed;
    EXPECT_EQ(device->memory().reserved_bytes, 0);
  }
}

/// NCCL's double refuses memory that the GPUs of other ranks cannot access.
TEST(GrowingMemory, PeersHaveAccessWhereTheyNeedIt) {
  for (const bool peers : {true, false}) {
    reset_runtime({.devices = 3});
    use_gpu(2);
    {
      const auto device = make_cuda_device({.peer_access = peers});
      const Tensor x = bytes(*device, 10);
      EXPECT_EQ(device->memory().reserved_bytes, kGranule) << "a block would have fewer bytes";
      EXPECT_EQ(cuda_host::runtime_counts().shared_pieces > 0, peers);
    }
    use_gpu(0);
  }
}

TEST(GrowingMemory, APlanIsSeparate) {
  reset_runtime({});
  const auto device = make_cuda_device();
  MemoryPlan plan;
  plan.arena_bytes = 4096;
  plan.resident = {{MemoryTag::weights, 1000, 0}};
  device->use_plan(plan);
  const auto [memory, size] = device->planned_memory();
  EXPECT_EQ(size, 4096);
  // Larger than what the plan has, as an evaluation with longer rows.
  const SequenceScope step(*device, MemorySequence::evaluate);
  const Tensor more = bytes(*device, 3 * kGranule);
  EXPECT_EQ(device->planned_memory().first, memory);
  EXPECT_EQ(device->memory().reserved_bytes, 4096 + 3 * kGranule);
  EXPECT_EQ(device->memory().unplanned_bytes, 3 * kGranule);
}

TEST(GrowingMemory, WithoutVirtualMemoryThereAreBlocksAndTheReason) {
  reset_runtime({.virtual_memory = false});
  testing::internal::CaptureStderr();
  const auto device = make_cuda_device();
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      AllOf(HasSubstr("separate blocks"), HasSubstr("the GPU does not support virtual memory")));
  const Tensor x = bytes(*device, 1000);
  EXPECT_EQ(device->memory().reserved_bytes, 1024);
}

}  // namespace
}  // namespace viaduct
