#include "tensor/round_once.h"

#include <gtest/gtest.h>

#include "tensor/dtype.h"

namespace viaduct {
namespace {

// 1 + 2^-8 is the tie between 1 and the next bf16; a little more must round up, even if FP32 cannot
// represent the difference.
TEST(RoundOnce, ATieIsNotMadeOnTheWay) {
  const double above_tie = 1 + 0x1p-8 + 0x1p-40;
  EXPECT_EQ(static_cast<float>(static_cast<bfloat16>(static_cast<float>(above_tie))), 1.0f)
      << "rounded twice";
  EXPECT_EQ(static_cast<float>(static_cast<bfloat16>(rounded_to_odd(above_tie))), 1 + 0x1p-7f);
  EXPECT_EQ(static_cast<float>(static_cast<bfloat16>(rounded_to_odd(-above_tie))), -1 - 0x1p-7f);
  const double below_tie = 1 + 0x1p-8 + 0x1p-7 - 0x1p-40;  // tie of 1 + 2^-7 and 1 + 2^-6
  EXPECT_EQ(static_cast<float>(static_cast<bfloat16>(rounded_to_odd(below_tie))), 1 + 0x1p-7f);
  const double half_tie = 1 + 0x1p-11 + 0x1p-45;
  EXPECT_EQ(static_cast<float>(static_cast<float16>(rounded_to_odd(half_tie))), 1 + 0x1p-10f);
}

TEST(RoundOnce, WhatFp32HoldsStays) {
  for (const float value : {0.0f, -0.0f, 1.0f, -3.25f, 0x1p-149f, 3.4028235e38f})
    EXPECT_EQ(std::bit_cast<uint32_t>(rounded_to_odd(value)), std::bit_cast<uint32_t>(value));
  EXPECT_TRUE(std::isinf(rounded_to_odd(std::numeric_limits<double>::infinity())));
  EXPECT_TRUE(std::isnan(rounded_to_odd(std::numeric_limits<double>::quiet_NaN())));
}

TEST(RoundOnce, StaysFiniteAndKeepsTheSign) {
  EXPECT_EQ(rounded_to_odd(1e300), std::numeric_limits<float>::max());
  EXPECT_EQ(rounded_to_odd(-1e300), -std::numeric_limits<float>::max());
  EXPECT_EQ(rounded_to_odd(1e-300), 0x1p-149f);
  EXPECT_EQ(rounded_to_odd(-1e-300), -0x1p-149f);
}

// The neighbours of a value: its rounding is one of the two and, unless the value is exact, the odd
// one.
TEST(RoundOnce, IsTheOddNeighbour) {
  for (int i = 1; i < 2000; ++i) {
    const double value = std::ldexp(1 + i * 0x1.3c6ef372fe95p-12 + i * 0x1p-44, i % 40 - 20);
    const float rounded = rounded_to_odd(value);
    EXPECT_EQ(std::bit_cast<uint32_t>(rounded) & 1u, 1u) << value;
    EXPECT_LT(std::fabs(rounded - value), std::ldexp(1.0, std::ilogb(value) - 23)) << value;
  }
}

}  // namespace
}  // namespace viaduct
