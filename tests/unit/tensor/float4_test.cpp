// E2M1 and the scales of NVFP4: every code, the nearest of all codes, stochastic rounding, and
// comparison with another implementation.

#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <sstream>
#include <string>

#include "base/philox.h"
#include "support/paths.h"
#include "tensor/nvfp4.h"

namespace viaduct {
namespace {

constexpr float kMagnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

float value_of(int code) {
  float4_e2m1 x;
  x.bits = static_cast<uint8_t>(code);
  return static_cast<float>(x);
}

int code_of(float value) {
  return float4_e2m1(value).bits;
}

TEST(Float4, EveryCode) {
  for (int code = 0; code < 16; ++code) {
    const float magnitude = kMagnitudes[code % 8];
    EXPECT_EQ(std::bit_cast<uint32_t>(value_of(code)),
              std::bit_cast<uint32_t>(code < 8 ? magnitude : -magnitude));
    EXPECT_EQ(code_of(value_of(code)), code);
  }
}

TEST(Float4, NearestOfTwoEven) {
  for (int i = -800; i <= 800; ++i) {
    const float value = static_cast<float>(i) / 100;
    int best = 0;
    for (int code = 0; code < 8; ++code) {
      const float distance = std::fabs(std::fabs(value) - kMagnitudes[code]);
      const float before = std::fabs(std::fabs(value) - kMagnitudes[best]);
      if (distance < before || (distance == before && code % 2 == 0)) best = code;
    }
    EXPECT_EQ(code_of(value), i < 0 ? best + 8 : best) << value;
  }
  for (int code = 0; code < 7; ++code) {
    const float middle = (kMagnitudes[code] + kMagnitudes[code + 1]) / 2;
    EXPECT_EQ(code_of(middle), code % 2 == 0 ? code : code + 1) << middle;
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(code_of(infinity), 7);
  EXPECT_EQ(code_of(-infinity), 15);
  EXPECT_EQ(code_of(std::nanf("")), 8) << "there is no NaN";
}

// Over all 2^16 random numbers the mean is the value, up to their resolution of 2^-17 of a step.
TEST(Float4, StochasticRoundingHasTheMeanOfTheValue) {
  for (const float value : {0.1f, 0.37f, 0.5f, 0.75f, 1.9f, 2.2f, 3.0f, 3.99f, 4.5f, 5.9f, 6.0f}) {
    double sum = 0;
    for (int random = 0; random < 65536; ++random) {
      const auto up = float4_e2m1::stochastic(value, static_cast<uint16_t>(random));
      const auto down = float4_e2m1::stochastic(-value, static_cast<uint16_t>(random));
      EXPECT_EQ(down.bits, up.bits | 8);
      sum += static_cast<float>(up);
      ASSERT_LT(std::fabs(static_cast<float>(up) - value), value < 2 ? 0.5f : value < 4 ? 1 : 2);
    }
    EXPECT_NEAR(sum / 65536, value, 2 * 0x1p-17) << value;
  }
  EXPECT_EQ(float4_e2m1::stochastic(7, 65535).bits, 7) << "saturates";
  EXPECT_EQ(float4_e2m1::stochastic(0, 65535).bits, 0);
}

// Random numbers of the counter generator, as ops use them.
TEST(Float4, StochasticRoundingIsUnbiasedWithPhilox) {
  const uint64_t key = philox_key({1234, 99});
  for (const float value : {0.2f, 1.1f, 2.7f, 4.4f}) {
    double sum = 0;
    constexpr int kDraws = 20000;
    for (int i = 0; i < kDraws; ++i) {
      for (const uint32_t word : philox4x32(key, static_cast<uint64_t>(i), 7)) {
        sum += static_cast<float>(float4_e2m1::stochastic(value, static_cast<uint16_t>(word)));
        sum +=
            static_cast<float>(float4_e2m1::stochastic(value, static_cast<uint16_t>(word >> 16)));
      }
    }
    // The standard deviation of a mean of n is at most half a step (of 2) / sqrt(n).
    EXPECT_NEAR(sum / (8.0 * kDraws), value, 4 / std::sqrt(8.0 * kDraws)) << value;
  }
}

TEST(Float4, ScalesOfNvfp4) {
  EXPECT_EQ(nvfp4_matrix_scale(2688), 1);
  EXPECT_EQ(nvfp4_matrix_scale(0), 1);
  EXPECT_TRUE(std::isnan(nvfp4_matrix_scale(std::numeric_limits<float>::infinity())));
  EXPECT_EQ(static_cast<float>(nvfp4_group_scale(2688, 1)), 448) << "the largest group's";
  EXPECT_EQ(static_cast<float>(nvfp4_group_scale(6, 1)), 1);
  EXPECT_EQ(static_cast<float>(nvfp4_group_scale(0.001f, 1)), 0);
  EXPECT_EQ(nvfp4_scaled(3, 0, 1), 0) << "a group whose scale is 0";
  EXPECT_EQ(nvfp4_scaled(3, 2, 0.5f), 3);
}

// tests/data/number_formats: the numbers of another implementation.
TEST(Float4, AgreesWithMlDtypes) {
  std::ifstream file(test::test_data("number_formats/float4.txt"));
  const auto float_of = [](const std::string& bits) {
    return std::bit_cast<float>(static_cast<uint32_t>(std::stoul(bits, nullptr, 16)));
  };
  const auto number = [](const std::string& hex) { return std::stoi(hex, nullptr, 16); };
  int values = 0, codes = 0, blocks = 0;
  float matrix_scale = 0;
  std::string line, kind, a, b;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    words >> kind >> a;
    if (kind == "matrix") {
      matrix_scale = float_of(a);
    } else if (kind == "value") {
      words >> b;
      EXPECT_EQ(std::bit_cast<uint32_t>(value_of(number(a))), std::bit_cast<uint32_t>(float_of(b)));
      ++values;
    } else if (kind == "code") {
      words >> b;
      EXPECT_EQ(code_of(float_of(a)), number(b)) << float_of(a);
      ++codes;
    } else {
      float elements[kNvfp4Group], amax = 0;
      for (float& x : elements) {
        words >> b;
        x = float_of(b);
        amax = std::max(amax, std::fabs(x));
      }
      const float8_e4m3 scale = nvfp4_group_scale(amax, matrix_scale);
      EXPECT_EQ(scale.bits, number(a));
      for (const float x : elements) {
        words >> b;
        EXPECT_EQ(code_of(nvfp4_scaled(x, static_cast<float>(scale), matrix_scale)), number(b));
      }
      ++blocks;
    }
  }
  EXPECT_EQ(values, 16);
  EXPECT_GT(codes, 600);
  EXPECT_EQ(blocks, 48);
}

}  // namespace
}  // namespace viaduct
