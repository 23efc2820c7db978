// Tensors as quantized blocks of GGUF files.

#include "checkpoint/gguf_quantized_tensor.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "support/tensor_bytes.h"
#include "tensor/gguf_blocks.h"

namespace viaduct {
namespace {

using test::bytes_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr GgufTensorType kSearched[] = {
    GgufTensorType::q4_0, GgufTensorType::q4_1, GgufTensorType::q5_0, GgufTensorType::q5_1,
    GgufTensorType::q4_k, GgufTensorType::q5_k, GgufTensorType::q6_k};

/// Values that every floating dtype holds.
Tensor multiples(DType dtype, const Shape& shape) {
  Tensor tensor = host_tensor(dtype, shape);
  dispatch_floating(dtype, [&](auto zero) {
    auto* to = tensor.data<decltype(zero)>();
    for (int64_t i = 0; i < tensor.elements(); ++i)
      to[i] = static_cast<decltype(zero)>(static_cast<float>((i * i + 31 * i) % 127 - 63) / 512);
  });
  return tensor;
}

TEST(QuantizedTensor, PoolsDoNotChangeBytesOrCounts) {
  const Tensor from = multiples(DType::f32, {3, 100, 256});
  for (const GgufTensorType type : kSearched) {
    Rounding alone;
    const Tensor expected = quantized_tensor(from, type, "w", nullptr, alone);
    EXPECT_EQ(expected.bytes(), gguf_bytes(type, from.elements())) << gguf_type_name(type);
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      Rounding counted;
      EXPECT_EQ(bytes_of(quantized_tensor(from, type, "w", &pool, counted)), bytes_of(expected));
      EXPECT_EQ(counted.text(), alone.text());
      EXPECT_EQ(counted.error_squares, alone.error_squares);
    }
  }
}

TEST(QuantizedTensor, CountsTheDistanceOfTheFilesValues) {
  const Tensor from = multiples(DType::f32, {2, 256});
  for (const GgufTensorType type : kSearched) {
    Rounding total;
    const Tensor blocks = quantized_tensor(from, type, "w", nullptr, total);
    std::vector<float> values(512);
    decode_gguf_elements(type, static_cast<const std::byte*>(blocks.raw()), 0, 512, values.data());
    double squares = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double difference =
          static_cast<double>(values[i]) - static_cast<double>(from.data<float>()[i]);
      squares += difference * difference;
    }
    EXPECT_EQ(total.elements, 512);
    EXPECT_GT(squares, 0) << gguf_type_name(type);
    EXPECT_NEAR(total.error_squares, squares, squares * 1e-9) << gguf_type_name(type);
  }
}

// Blocks with a minimum need not have a code for zero.
TEST(QuantizedTensor, ZerosThatChangeHaveNoRelativeChange) {
  Tensor from = multiples(DType::f32, {256});
  for (int64_t i = 0; i < from.elements(); ++i) from.data<float>()[i] += 0.4f;
  from.data<float>()[3] = 0;
  Rounding total;
  quantized_tensor(from, GgufTensorType::q4_1, "w", nullptr, total);
  EXPECT_TRUE(std::isfinite(total.largest));
}

TEST(QuantizedTensor, DtypesOfTheSameValuesAreTheSame) {
  for (const GgufTensorType type : kSearched) {
    Rounding total;
    const Tensor expected =
        quantized_tensor(multiples(DType::f32, {256}), type, "w", nullptr, total);
    for (const DType dtype : {DType::f64, DType::bf16, DType::f16}) {
      const Tensor found = quantized_tensor(multiples(dtype, {256}), type, "w", nullptr, total);
      EXPECT_EQ(bytes_of(found), bytes_of(expected)) << dtype_name(dtype);
    }
  }
}

TEST(QuantizedTensor, RefusesWhatFP16ScalesCannotHold) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const GgufTensorType type : kSearched) {
    for (const float bad : {infinity, -infinity, std::nanf(""), 65505.0f, -1e30f}) {
      Tensor from = multiples(DType::f32, {4, 256});
      from.data<float>()[700] = bad;
      Rounding total;
      EXPECT_THAT([&] { quantized_tensor(from, type, "model.x.weight", nullptr, total); },
                  ThrowsMessage<IoError>(
                      AllOf(HasSubstr("tensor \"model.x.weight\": 1 of its 1024 elements is not "
                                      "finite, or beyond 65504"),
                            HasSubstr(std::string(gguf_type_name(type))))));
    }
    Tensor from = multiples(DType::f32, {256});
    from.data<float>()[7] = 65504;
    from.data<float>()[9] = -65504;
    Rounding total;
    const Tensor blocks = quantized_tensor(from, type, "w", nullptr, total);
    float values[256];
    decode_gguf_elements(type, static_cast<const std::byte*>(blocks.raw()), 0, 256, values);
    EXPECT_NEAR(values[7], 65504, 65504 / 7) << gguf_type_name(type);
    EXPECT_NEAR(values[9], -65504, 65504 / 7) << gguf_type_name(type);
  }
}

TEST(QuantizedTensor, RefusesRowsThatAreNotBlocks) {
  Rounding total;
  EXPECT_THAT(
      [&] {
        quantized_tensor(multiples(DType::f32, {2, 48}), GgufTensorType::q4_0, "w", nullptr, total);
      },
      ThrowsMessage<ShapeError>(HasSubstr("rows that are not a multiple of 32")));
  // 512 elements, but rows of 128.
  EXPECT_THAT(
      [&] {
        quantized_tensor(multiples(DType::f32, {4, 128}), GgufTensorType::q6_k, "w", nullptr,
                         total);
      },
      ThrowsMessage<ShapeError>(HasSubstr("rows that are not a multiple of 256")));
}

// ggml-quants.c, quantize_row_q8_0_ref.
TEST(Q8_0, IsGgmlsReference) {
  Tensor from = host_tensor(DType::f32, {2, 32});
  auto* values = from.data<float>();
  for (int i = 0; i < 32; ++i) values[i] = static_cast<float>(i - 16) * 0.37f;  // row 1: zeros
  Rounding total;
  const Tensor blocks = q8_0_blocks(from, "w", total);
  ASSERT_EQ(blocks.bytes(), 2 * 34);
  const auto* bytes = static_cast<const uint8_t*>(blocks.raw());
  float16 scale;
  std::memcpy(&scale, bytes, 2);
  const float exact = 16 * 0.37f / 127;
  EXPECT_EQ(static_cast<float>(scale), static_cast<float>(static_cast<float16>(exact)));
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(static_cast<int8_t>(bytes[2 + i]), std::lround(values[i] * (1 / exact))) << i;
  for (int i = 34; i < 68; ++i) EXPECT_EQ(bytes[i], 0);
  EXPECT_EQ(total.elements, 64);
  EXPECT_GT(total.changed, 0);
}

TEST(Q8_0, RefusesWhatItsScalesCannotHold) {
  Tensor from = host_tensor(DType::f32, {32});
  from.data<float>()[3] = 1e7f;  // / 127 is beyond f16
  Rounding total;
  EXPECT_THAT([&] { q8_0_blocks(from, "w", total); },
              ThrowsMessage<IoError>(HasSubstr("tensor \"w\": 1 of its 1 block")));
  from.data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(q8_0_blocks(from, "w", total), IoError);
  from.data<float>()[3] = 1e-42f;  // its inverse is infinite
  EXPECT_NO_THROW(q8_0_blocks(from, "w", total));
}

}  // namespace
}  // namespace viaduct
