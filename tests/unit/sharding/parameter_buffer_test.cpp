// The memory of a buffer whose weights are codes with two elements in a byte.

#include "sharding/parameter_buffer.h"

#include <gtest/gtest.h>

#include "comm/parallel_groups.h"

namespace viaduct {
namespace {

TEST(ParameterBuffer, TwoElementsShareAByte) {
  const auto device = make_cpu_device(1);
  Parameter first, second;
  first.path = "first", first.shape = {4, 32};
  second.path = "second", second.shape = {2, 16};
  BufferFormats formats;
  formats.weight = DType::e2m1x2;
  formats.gradient = formats.master = DType::f32;
  formats.master_is_weight = false;
  const ParameterBuffer buffer(*device, 0, {&first, &second},
                               make_buffer_layout({{128}, {32}}, {.shards = 1}), formats,
                               sharding_groups(self_groups(), Grid::attention));
  // The second one, padding up to 64, the first one, padding up to 256.
  EXPECT_EQ(buffer.layout().buckets.front(), (Range{0, 256}));
  const Tensor weights = buffer.bucket_weights(0);
  EXPECT_EQ(weights.elements(), 128);
  EXPECT_EQ(buffer.bucket_gradients(0).elements(), 256);
  EXPECT_EQ(buffer.own_masters(0).elements(), 256);
  EXPECT_EQ(buffer.weight(0).shape(), (Shape{4, 16}));
  EXPECT_EQ(buffer.gradient(0).shape(), (Shape{4, 32}));
  EXPECT_EQ(buffer.weight_in_shard(1).shape(), (Shape{16}));
  const auto* bytes = static_cast<const uint8_t*>(weights.raw());
  EXPECT_EQ(static_cast<const uint8_t*>(buffer.weight(1).raw()), bytes);
  EXPECT_EQ(static_cast<const uint8_t*>(buffer.weight(0).raw()), bytes + 32);
  for (int i = 0; i < 128; ++i) {
    const bool padding = (i >= 16 && i < 32) || i >= 96;
    if (padding) {
      EXPECT_EQ(bytes[i], 0) << i;
    }
  }
}

TEST(ParameterBuffer, PartsOfAFlatTensor) {
  EXPECT_FALSE(flat_part(Tensor(), {0, 4}).defined());
  const Tensor floats = host_tensor(DType::f32, {16}), codes = host_tensor(DType::e2m1x2, {8});
  EXPECT_EQ(flat_part(floats, {4, 12}).elements(), 8);
  EXPECT_EQ(flat_part(codes, {4, 12}).elements(), 4);
  EXPECT_EQ(static_cast<const uint8_t*>(flat_part(codes, {4, 12}).raw()),
            static_cast<const uint8_t*>(codes.raw()) + 2);
}

}  // namespace
}  // namespace viaduct
