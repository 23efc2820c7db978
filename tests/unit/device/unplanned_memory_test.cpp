// Memory beside a plan, of allocations whose sizes the data decide, as experts' rows.

#include <gtest/gtest.h>

#include "device/device.h"

namespace viaduct {
namespace {

constexpr int64_t kMiB = 1 << 20;

Tensor bytes_of(Device& device, int64_t bytes) {
  return device.allocate(DType::u8, {bytes}, MemoryTag::activations);
}

std::unique_ptr<Device> planned_device() {
  auto device = make_cpu_device(1);
  MemoryPlan plan;
  plan.arena_bytes = 2 * kMiB;
  device->use_plan(plan);
  return device;
}

// Blocks of sizes that do not come again are given back before others are taken.
TEST(UnplannedMemory, OfVaryingSizesIsWhatWasInUseAtOnce) {
  for (const int64_t unit : {kMiB, kMiB / 16}) {
    const auto device = planned_device();
    const int64_t planned = device->memory().reserved_bytes;
    device->begin_sequence(MemorySequence::step);
    const Tensor arena = bytes_of(*device, 2 * kMiB);  // has no room then
    int64_t most = 0;
    for (const int64_t size : {80, 120, 90, 100, 160, 70, 110}) {
      const Tensor one = bytes_of(*device, size * unit / 10), other = bytes_of(*device, 5 * unit);
      most = std::max(most, one.bytes() + other.bytes());
    }
    // Size classes waste an eighth at most.
    EXPECT_LE(device->memory().reserved_bytes - planned, 2 * kMiB + most * 9 / 8) << unit;
    EXPECT_EQ(device->memory().unplanned_allocations, 15);
    EXPECT_GE(device->memory().peak_beside_plan_bytes, most);
    EXPECT_LE(device->memory().peak_beside_plan_bytes, 2 * kMiB + most * 9 / 8);
    device->end_sequence();
  }
}

TEST(UnplannedMemory, OfOneSizeIsTakenOnce) {
  const auto device = planned_device();
  device->begin_sequence(MemorySequence::step);
  const Tensor arena = bytes_of(*device, 2 * kMiB);
  bytes_of(*device, 8 * kMiB);
  const int64_t taken = device->memory().system_allocations;
  for (int i = 0; i < 5; ++i) bytes_of(*device, 8 * kMiB - i);
  EXPECT_EQ(device->memory().system_allocations, taken);
  device->end_sequence();
}

}  // namespace
}  // namespace viaduct
