#include "device/device.h"

#include <gtest/gtest.h>

namespace viaduct {
namespace {

TEST(CpuDevice, KeepsMemoryBetweenSteps) {
  auto device = make_cpu_device(1);
  for (int step = 0; step < 3; ++step) {
    Tensor a = device->allocate(DType::f32, {1000, 1000}, MemoryTag::activations);
    Tensor b = device->allocate(DType::bf16, {37}, MemoryTag::saved);
    EXPECT_NE(a.raw(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(b.raw()) % 64, 0u);
  }
  EXPECT_EQ(device->memory().system_allocations, 2);
  EXPECT_EQ(device->memory().bytes_in_use, 0);
  EXPECT_EQ(device->memory().peak_bytes, 4000000 + 74);
  EXPECT_EQ(device->memory().peak_bytes_by_tag[static_cast<size_t>(MemoryTag::saved)], 74);
}

TEST(SimDevice, RecordsWithoutStorage) {
  auto device = make_sim_device();
  StepRecord record;
  device->set_record(&record);
  {
    Tensor weights = device->allocate(DType::f32, {1 << 20, 1 << 20}, MemoryTag::weights);  // 4 TiB
    EXPECT_EQ(weights.raw(), nullptr);
    Tensor small = device->allocate(DType::f32, {4}, MemoryTag::saved);
    EXPECT_EQ(host_read(*device, small, "loss", 7.0), 7.0);
  }
  device->set_record(nullptr);
  EXPECT_EQ(record.peak().bytes, (int64_t{1} << 42) + 16);
  EXPECT_EQ(record.peak().bytes_by_tag.at("saved activations"), 16);
  ASSERT_EQ(record.host_reads().size(), 1u);
  EXPECT_EQ(record.host_reads()[0].reason, "loss");
  for (const auto& a : record.allocations()) EXPECT_GE(a.released_at, a.allocated_at);
}

}  // namespace
}  // namespace viaduct
