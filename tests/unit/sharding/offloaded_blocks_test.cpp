// Blocks of tensors in a second memory: their values come back at any timing of copies, and their
// memory is allocated at fixed points.

#include "sharding/offloaded_blocks.h"

#include <gmock/gmock.h>

#include <numeric>

#include "base/error.h"
#include "optim/bucket_walk.h"
#include "support/later_memory.h"

namespace viaduct {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kElements = 100;

class OffloadedBlocksTest : public testing::Test {
 protected:
  /// A block of one tensor.
  Tensor add() { return blocks_.add(MemoryTag::moments, {{DType::f32, kElements}}).front(); }
  size_t block(const Tensor& tensor) const { return blocks_.block_of(tensor).value(); }
  /// Stores consecutive numbers from `first`.
  void store(const Tensor& tensor, float first) {
    blocks_.require(block(tensor));
    float* values = blocks_.present(tensor).data<float>();
    std::iota(values, values + kElements, first);
    blocks_.leave(block(tensor), true);
    blocks_.settle(block(tensor));
  }
  /// The first number in the block; −1 unless the others follow from it.
  float read(const Tensor& tensor) {
    BlockCursor cursor(&blocks_, BlockCursor::Access::read);
    const float* values = cursor.at(tensor).data<float>();
    for (int64_t i = 1; i < kElements; ++i)
      if (values[i] != values[0] + static_cast<float>(i)) return -1;
    return values[0];
  }
  int64_t in_use() const { return device_->memory().bytes_in_use; }

  std::unique_ptr<Device> device_ = make_cpu_device(1);
  test::LaterMemory memory_{7};
  OffloadedBlocks blocks_{*device_, memory_};
};

TEST_F(OffloadedBlocksTest, ValuesComeBackAndChangesStay) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 20; ++i) tensors.push_back(add());
  for (int i = 0; i < 20; ++i) store(tensors[static_cast<size_t>(i)], 1000.0f * (i + 1));
  EXPECT_EQ(in_use(), 0);
  for (int round = 0; round < 3; ++round)
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(read(tensors[static_cast<size_t>(i)]), 1000.0f * (i + 1));
  store(tensors[3], 5);
  EXPECT_EQ(read(tensors[3]), 5);
  EXPECT_EQ(read(tensors[4]), 5000);
  EXPECT_EQ(in_use(), 0);
}

TEST_F(OffloadedBlocksTest, TensorsOfABlockShareItsMemory) {
  const auto tensors = blocks_.add(MemoryTag::moments, {{DType::e4m3, 65}, {DType::f32, 2}});
  EXPECT_EQ(block(tensors[0]), block(tensors[1]));
  blocks_.begin(block(tensors[0]));
  // Each begins at a multiple of 64 bytes.
  EXPECT_EQ(blocks_.present(tensors[1]).offset_bytes(), 128);
  EXPECT_EQ(in_use(), 192);
  const Tensor slice = tensors[0].slice(0, 3, 2);
  EXPECT_EQ(blocks_.present(slice).raw(),
            static_cast<std::byte*>(blocks_.present(tensors[0]).raw()) + 3);
}

TEST_F(OffloadedBlocksTest, WhatIsNotHereIsAnError) {
  const Tensor tensor = add();
  store(tensor, 1);
  EXPECT_THAT([&] { blocks_.present(tensor); },
              ThrowsMessage<ShapeError>(HasSubstr("f32 [100] is used while its block is not")));
  blocks_.fetch(block(tensor));
  EXPECT_THROW(blocks_.present(tensor), ShapeError) << "its copy is in flight";
  blocks_.require(block(tensor));
  EXPECT_NO_THROW(blocks_.present(tensor));
  const Tensor of_device = device_->allocate(DType::f32, {3}, MemoryTag::other);
  EXPECT_EQ(blocks_.present(of_device).raw(), of_device.raw());
}

TEST_F(OffloadedBlocksTest, ABlockIsUsedAgainWhileItLeaves) {
  const Tensor tensor = add();
  store(tensor, 1);
  blocks_.require(block(tensor));
  blocks_.present(tensor).data<float>()[0] = 2;
  blocks_.leave(block(tensor), true);
  blocks_.require(block(tensor));
  EXPECT_EQ(blocks_.present(tensor).data<float>()[0], 2);
  blocks_.leave(block(tensor), false);
  blocks_.require(block(tensor));
  EXPECT_EQ(blocks_.present(tensor).data<float>()[0], 2);
}

TEST_F(OffloadedBlocksTest, AWalkHasOneOrTwoBucketsHere) {
  std::vector<BucketUses> buckets;
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < 5; ++i) {
    tensors.push_back(add());
    store(tensors.back(), static_cast<float>(i));
    buckets.push_back({{i, i + 1, true}, {{block(tensors.back()), true}}});
  }
  const int64_t one = (kElements * 4 + 63) / 64 * 64;
  for (const bool overlap : {false, true}) {
    int64_t most = 0;
    walk_buckets(&blocks_, buckets, overlap, [&](const RunBucket& bucket) {
      most = std::max(most, in_use());
      const Tensor here = blocks_.present(tensors[bucket.begin]);
      EXPECT_EQ(*here.data<float>(), static_cast<float>(bucket.begin) + (overlap ? 100 : 0));
      for (int64_t i = 0; i < kElements; ++i) here.data<float>()[i] += 100;
    });
    EXPECT_EQ(most, overlap ? 2 * one : one);
    EXPECT_EQ(in_use(), 0);
  }
  EXPECT_EQ(read(tensors[4]), 204);
}

}  // namespace
}  // namespace viaduct
