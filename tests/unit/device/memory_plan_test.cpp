// The cpu device with a plan: planned allocations get their places, others get separate memory, and
// live tensors never overlap.

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/error.h"
#include "device/device.h"

namespace viaduct {
namespace {

constexpr auto kTag = MemoryTag::activations;
constexpr int64_t kHuge = 2 << 20;  // arenas are made of huge pages
constexpr int64_t kPlace = 400 << 10;

MemoryPlan small_plan() {
  MemoryPlan plan;
  plan.arena_bytes = 1024;
  plan.resident = {{MemoryTag::weights, 100, 0}, {MemoryTag::weights, 100, 128}};
  plan.sequences[static_cast<size_t>(MemorySequence::step)] = {
      {kTag, 256, 256}, {kTag, 64, 512}, {kTag, 256, 576}, {MemoryTag::saved, 256, 256}};
  return plan;
}

Tensor take(Device& device, int64_t bytes, MemoryTag tag = kTag) {
  return device.allocate(DType::u8, {bytes}, tag);
}

int64_t distance(const Tensor& a, const Tensor& b) {
  return static_cast<char*>(b.raw()) - static_cast<char*>(a.raw());
}

TEST(MemoryPlan, GivesTheNthOfATagAndSizeItsPlace) {
  const auto device = make_cpu_device(1);
  device->use_plan(small_plan());
  EXPECT_EQ(device->memory().system_allocations, 1);
  device->begin_sequence(MemorySequence::setup);
  const Tensor first = take(*device, 100, MemoryTag::weights);
  const Tensor second = take(*device, 100, MemoryTag::weights);
  device->end_sequence();
  EXPECT_EQ(distance(first, second), 128);
  for (int step = 0; step < 3; ++step) {
    device->begin_sequence(MemorySequence::step);
    {
      const Tensor a = take(*device, 256);
      const Tensor c = take(*device, 256), b = take(*device, 64);  // another order than planned
      EXPECT_EQ(distance(first, a), 256);
      EXPECT_EQ(distance(first, b), 512);
      EXPECT_EQ(distance(first, c), 576);
    }
    EXPECT_EQ(distance(first, take(*device, 256, MemoryTag::saved)), 256);
    device->end_sequence();
  }
  EXPECT_EQ(device->memory().system_allocations, 1);
  EXPECT_EQ(device->memory().unplanned_allocations, 0);
}

// Optimizer states of equal sizes: some stay, others are offloaded at once.
TEST(MemoryPlan, WhatStaysDoesNotTakeThePlaceOfWhatLeaves) {
  MemoryPlan plan;
  plan.arena_bytes = 192;
  plan.resident = {{kTag, 64, 0}, {kTag, 64, 64}};
  plan.sequences[static_cast<size_t>(MemorySequence::setup)] = {
      {kTag, 64, kResident}, {kTag, 64, 128}, {kTag, 64, kResident}, {kTag, 64, 128}};
  const auto device = make_cpu_device(1);
  device->use_plan(plan);
  device->begin_sequence(MemorySequence::setup);
  const Tensor first = take(*device, 64);
  EXPECT_EQ(distance(first, take(*device, 64)), 128);
  const Tensor second = take(*device, 64);
  EXPECT_EQ(distance(first, second), 64);
  EXPECT_EQ(distance(first, take(*device, 64)), 128);
  EXPECT_EQ(device->memory().unplanned_allocations, 0);
}

// Rows of experts: as many as the data send, while the plan has places for an even share.
TEST(MemoryPlan, OtherSizesAreMadeWhereTheArenaIsFree) {
  const auto device = make_cpu_device(1);
  MemoryPlan plan;
  plan.arena_bytes = kHuge + 5 * kPlace;
  plan.resident = {{MemoryTag::weights, kHuge, 0}};
  for (int64_t i = 0; i < 4; ++i)
    plan.sequences[static_cast<size_t>(MemorySequence::step)].push_back(
        {kTag, kPlace, kHuge + i * kPlace});
  device->use_plan(plan);
  const int64_t before = device->memory().reserved_bytes;
  for (int step = 0; step < 3; ++step) {
    device->begin_sequence(MemorySequence::step);
    std::vector<Tensor> rows;
    for (const int64_t more : {64, -64, 4096, -8192}) rows.push_back(take(*device, kPlace + more));
    for (size_t i = 0; i < rows.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        EXPECT_GE(std::abs(distance(rows[i], rows[j])), kPlace - 8192) << "no two overlap";
    device->end_sequence();
  }
  EXPECT_EQ(device->memory().reserved_bytes, before) << "the arena had room for all";
  EXPECT_EQ(device->memory().unplanned_allocations, 12);
}

// Rows of experts that are kept, then the logits: these have their place, and some rows another.
TEST(MemoryPlan, WhatIsKeptLeavesOutPlacesOfMuchLargerOnesToCome) {
  constexpr int64_t kLogits = 1240 << 10;
  const auto device = make_cpu_device(1);
  MemoryPlan plan;
  plan.arena_bytes = kHuge;
  plan.sequences[static_cast<size_t>(MemorySequence::step)] = {
      {MemoryTag::saved, kPlace, 0},
      {MemoryTag::saved, kPlace, kPlace},
      {kTag, kLogits, 2 * kPlace},
  };
  device->use_plan(plan);
  const int64_t before = device->memory().reserved_bytes;
  device->begin_sequence(MemorySequence::step);
  const Tensor first = take(*device, kPlace + 64, MemoryTag::saved),
               second = take(*device, kPlace + 64, MemoryTag::saved);
  EXPECT_EQ(distance(first, take(*device, kLogits)), 2 * kPlace);
  EXPECT_LE(device->memory().reserved_bytes - before, kPlace * 9 / 8 + 64) << "of the second alone";
  device->end_sequence();
}

TEST(MemoryPlan, WhatFitsNowhereHasMemoryOfItsOwn) {
  const auto device = make_cpu_device(1);
  device->use_plan(small_plan());
  device->begin_sequence(MemorySequence::step);
  const char* base = static_cast<char*>(take(*device, 256).raw()) - 256;
  device->end_sequence();
  const auto inside = [&](const Tensor& t) {
    const char* at = static_cast<char*>(t.raw());
    return at >= base && at < base + kHuge;
  };
  EXPECT_FALSE(inside(take(*device, 256))) << "outside of any sequence";
  EXPECT_EQ(device->memory().unplanned_allocations, 0) << "which is no deviation";
  device->begin_sequence(MemorySequence::step);
  const Tensor known = take(*device, 64);
  EXPECT_TRUE(inside(known));
  device->begin_sequence(MemorySequence::step);
  take(*device, 65);                    // another size
  take(*device, 64, MemoryTag::saved);  // another owner
  take(*device, 64);                    // the place is held from the step before
  EXPECT_FALSE(inside(take(*device, kHuge))) << "more than is free";
  EXPECT_EQ(device->memory().unplanned_allocations, 4);
  EXPECT_EQ(device->memory().unplanned_bytes, 65 + 64 + 64 + kHuge);
  device->begin_sequence(MemorySequence::evaluate);
  take(*device, 256);  // known in another sequence only
  EXPECT_EQ(device->memory().unplanned_allocations, 5);
}

// A step of a growing batch has fewer micro-batches than the plan.
TEST(MemoryPlan, WhereAPlaceIsHeldAFreeOneOfItsKindDoes) {
  const auto device = make_cpu_device(1);
  device->use_plan(small_plan());
  device->begin_sequence(MemorySequence::step);
  const Tensor other = take(*device, 256, MemoryTag::saved);  // the planned place of the first kTag
  const Tensor first = take(*device, 256);
  EXPECT_EQ(distance(other, first), 576 - 256);
  EXPECT_EQ(device->memory().unplanned_allocations, 0);
  take(*device, 256);
  EXPECT_EQ(device->memory().unplanned_allocations, 1) << "both places are held";
}

TEST(MemoryPlan, OneMoreThanPlanned) {
  const auto device = make_cpu_device(1);
  device->use_plan(small_plan());
  device->begin_sequence(MemorySequence::step);
  take(*device, 256), take(*device, 256);
  EXPECT_EQ(device->memory().unplanned_allocations, 0);
  take(*device, 256);
  EXPECT_EQ(device->memory().unplanned_allocations, 1);
}

TEST(MemoryPlan, LargeBlocksOutsideOfSequencesGoBack) {
  const auto device = make_cpu_device(1);
  device->use_plan(small_plan());
  const int64_t before = device->memory().reserved_bytes;
  take(*device, 8 << 20);
  EXPECT_EQ(device->memory().reserved_bytes, before);
  device->begin_sequence(MemorySequence::step);
  take(*device, 8 << 20);
  EXPECT_EQ(device->memory().reserved_bytes, before + (8 << 20)) << "the next step needs it again";
  const int64_t asked = device->memory().system_allocations;
  device->begin_sequence(MemorySequence::step);
  take(*device, 8 << 20);
  EXPECT_EQ(device->memory().system_allocations, asked);
}

TEST(MemoryPlan, ComesOnceAndFirst) {
  const auto device = make_cpu_device(1);
  take(*device, 10);
  EXPECT_THROW(device->use_plan(small_plan()), DeviceError);
  const auto other = make_cpu_device(1);
  other->use_plan(small_plan());
  EXPECT_THROW(other->use_plan(small_plan()), DeviceError);
}

// Programs that differ from the plan: every tensor keeps its values.
TEST(MemoryPlan, NothingHeldEverOverlaps) {
  std::mt19937 random(3);
  MemoryPlan plan;
  plan.arena_bytes = 1 << 16;
  const auto planned = [&] {
    return PlannedAllocation{random() % 2 == 0 ? kTag : MemoryTag::saved,
                             static_cast<int64_t>(64 << (random() % 4)),
                             static_cast<int64_t>(random() % 960 * 64)};
  };
  for (auto& sequence : plan.sequences) {
    for (int i = 0; i < 50; ++i) sequence.push_back(planned());
  }
  for (int i = 0; i < 20; ++i) plan.resident.push_back(planned());
  const auto device = make_cpu_device(1);
  device->use_plan(plan);
  std::vector<std::pair<Tensor, uint8_t>> held;
  for (int event = 0; event < 5000; ++event) {
    if (event % 100 == 0) device->begin_sequence(static_cast<MemorySequence>(random() % 4));
    if (event % 100 == 80) device->end_sequence();
    if (!held.empty() && random() % 2 == 0) {
      const size_t i = random() % held.size();
      const auto& [tensor, value] = held[i];
      for (int64_t b = 0; b < tensor.bytes(); ++b)
        ASSERT_EQ(static_cast<uint8_t*>(tensor.raw())[b], value) << "event " << event;
      held.erase(held.begin() + static_cast<int64_t>(i));
    } else {
      const PlannedAllocation like = planned();
      const auto value = static_cast<uint8_t>(random());
      held.emplace_back(take(*device, like.bytes, like.tag), value);
      std::memset(held.back().first.raw(), value, static_cast<size_t>(like.bytes));
    }
  }
  EXPECT_GT(device->memory().unplanned_allocations, 0);
  const int64_t system = device->memory().system_allocations;
  EXPECT_LT(system, 600) << "the plan was not used";
}

}  // namespace
}  // namespace viaduct
