// Slopes of heads, and the dims of queries and keys whose product is a slope times a position.

#include "nn/linear_bias.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

TEST(LinearBias, SlopesAreThoseOfThePaper) {
  using testing::ElementsAre;
  EXPECT_THAT(linear_bias_slopes(8, 8),
              ElementsAre(0x1p-1, 0x1p-2, 0x1p-3, 0x1p-4, 0x1p-5, 0x1p-6, 0x1p-7, 0x1p-8));
  // Four heads, and of eight every second one.
  EXPECT_THAT(linear_bias_slopes(6, 8),
              ElementsAre(0x1p-2, 0x1p-4, 0x1p-6, 0x1p-8, 0x1p-1, 0x1p-3));
  EXPECT_THAT(linear_bias_slopes(2, 4), ElementsAre(0x1p-2, 0x1p-4));
  EXPECT_THAT(linear_bias_slopes(1, 8), ElementsAre(0x1p-8));
}

/// Also in 16 bits, where neither position nor slope is a number of the format. FP16's third part
/// is below its normal range.
TEST(LinearBias, IsTheProductOfTheDimsInEveryFormat) {
  constexpr double kScale = 0.3;
  const auto device = make_cpu_device(1);
  const std::vector<double> slopes = linear_bias_slopes(6, 7);
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const LinearBiasTables tables =
        make_linear_bias_tables(*device, slopes, kScale, kMostBiasedPositions, dtype);
    const std::vector<double> of_heads = test::values(tables.slopes),
                              of_positions = test::values(tables.positions);
    for (size_t head = 0; head < slopes.size(); ++head) {
      for (const size_t position : {0, 1, 255, 256, 1000, 65535}) {
        double sum = 0;
        for (size_t i = 0; i < kLinearBiasDims; ++i) {
          sum +=
              of_heads[head * kLinearBiasDims + i] * of_positions[position * kLinearBiasDims + i];
        }
        const double exact = slopes[head] * static_cast<double>(position);
        EXPECT_NEAR(kScale * sum, exact, 1e-5 * exact) << dtype_name(dtype) << " " << position;
      }
    }
  }
}

/// Slopes, positions and products in BF16, of groups of three heads for one of keys.
TEST(LinearBias, RoundedBiasesAreThoseOfEachHead) {
  const auto device = make_cpu_device(1);
  const std::vector<double> slopes = linear_bias_slopes(6, 8);
  const auto rounded = [](double value) {
    return static_cast<double>(static_cast<float>(bfloat16(static_cast<float>(value))));
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const LinearBiasTables tables = make_rounded_bias_tables(*device, slopes, 2, 1000, dtype);
    const std::vector<double> of_heads = test::values(tables.slopes),
                              of_keys = test::values(tables.positions);
    for (size_t head = 0; head < slopes.size(); ++head) {
      for (const size_t position : {0, 3, 257, 999}) {
        double sum = 0;
        for (size_t i = 0; i < kLinearBiasDims; ++i) {
          sum += of_heads[head * kLinearBiasDims + i] *
                 of_keys[(position * 2 + head / 3) * kLinearBiasDims + i];
        }
        EXPECT_EQ(sum, rounded(rounded(slopes[head]) * rounded(static_cast<double>(position))))
            << head << " " << position;
      }
    }
  }
  EXPECT_THROW(make_rounded_bias_tables(*device, linear_bias_slopes(9, 8), 1, 8, DType::f32),
               ConfigError);
}

TEST(LinearBias, PositionsHaveTwoDigits) {
  const auto device = make_cpu_device(1);
  EXPECT_THROW(make_linear_bias_tables(*device, {0.5}, 1, kMostBiasedPositions + 1, DType::f32),
               ConfigError);
}

}  // namespace
}  // namespace viaduct
