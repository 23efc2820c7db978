// FP8 elements and exponents: every code, and the nearest of all codes for many numbers.

#include "tensor/number_formats.h"

#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <random>
#include <string>

#include "support/paths.h"

namespace viaduct {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <class Format>
float value_of(int code) {
  Format x;
  x.bits = static_cast<uint8_t>(code);
  return static_cast<float>(x);
}

template <class Format>
void expect_every_code_comes_back() {
  for (int code = 0; code < 256; ++code) {
    const float value = value_of<Format>(code);
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(Format(value).bits, code) << value;
  }
}

/// The nearest number of the format; of two, the even code.
template <class Format>
uint8_t nearest(float value, uint8_t largest) {
  uint8_t best = 0;
  double distance = kInfinity;
  for (int code = 0; code <= largest; ++code) {
    const double d = std::fabs(std::fabs(double{value}) - value_of<Format>(code));
    if (d < distance || (d == distance && code % 2 == 0))
      best = static_cast<uint8_t>(code), distance = d;
  }
  return std::signbit(value) ? best | 0x80 : best;
}

template <class Format>
void expect_nearest(uint8_t largest) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> mantissa(-2, 2);
  for (int i = 0; i < 4000; ++i) {
    const float value = std::ldexp(mantissa(random), static_cast<int>(random() % 40) - 22);
    ASSERT_EQ(Format(value).bits, nearest<Format>(value, largest)) << value;
  }
  for (int code = 0; code < largest; ++code) {  // halfway between neighbours
    const float middle = (value_of<Format>(code) + value_of<Format>(code + 1)) / 2;
    ASSERT_EQ(Format(middle).bits, nearest<Format>(middle, largest)) << middle;
    ASSERT_EQ(Format(-middle).bits, nearest<Format>(-middle, largest)) << -middle;
  }
}

TEST(NumberFormats, E4m3) {
  EXPECT_EQ(value_of<float8_e4m3>(0x7e), 448);
  EXPECT_EQ(value_of<float8_e4m3>(0x38), 1);
  EXPECT_EQ(value_of<float8_e4m3>(0x01), 0x1p-9f);
  EXPECT_EQ(value_of<float8_e4m3>(0xb8), -1);
  EXPECT_TRUE(std::isnan(value_of<float8_e4m3>(0x7f)));
  EXPECT_EQ(float8_e4m3(1e9f).bits, 0x7e);
  EXPECT_EQ(float8_e4m3(-kInfinity).bits, 0xfe);
  EXPECT_TRUE(std::isnan(static_cast<float>(float8_e4m3(std::nanf("")))));
  expect_every_code_comes_back<float8_e4m3>();
  expect_nearest<float8_e4m3>(0x7e);
}

TEST(NumberFormats, E5m2) {
  EXPECT_EQ(value_of<float8_e5m2>(0x7b), 57344);
  EXPECT_EQ(value_of<float8_e5m2>(0x3c), 1);
  EXPECT_EQ(value_of<float8_e5m2>(0x01), 0x1p-16f);
  EXPECT_EQ(value_of<float8_e5m2>(0x7c), kInfinity);
  EXPECT_EQ(value_of<float8_e5m2>(0xfc), -kInfinity);
  for (const int code : {0x7d, 0x7e, 0x7f}) EXPECT_TRUE(std::isnan(value_of<float8_e5m2>(code)));
  EXPECT_EQ(float8_e5m2(kInfinity).bits, 0x7b);
  EXPECT_TRUE(std::isnan(static_cast<float>(float8_e5m2(std::nanf("")))));
  expect_every_code_comes_back<float8_e5m2>();
  expect_nearest<float8_e5m2>(0x7b);
}

TEST(NumberFormats, E8m0IsThePowerOfTwoNotBelow) {
  const auto bits = [](float value) { return int{float8_e8m0::not_below(value).bits}; };
  EXPECT_EQ(bits(1), 127);
  EXPECT_EQ(bits(1.0001f), 128);
  EXPECT_EQ(bits(2), 128);
  EXPECT_EQ(bits(0.75f), 127);
  EXPECT_EQ(bits(0), 0);
  EXPECT_EQ(bits(std::numeric_limits<float>::max()), 254) << "2^128 does not exist";
  EXPECT_EQ(bits(kInfinity), 255);
  EXPECT_EQ(bits(std::nanf("")), 255);
  for (int code = 0; code < 255; ++code) EXPECT_EQ(bits(value_of<float8_e8m0>(code)), code);
  EXPECT_TRUE(std::isnan(value_of<float8_e8m0>(255)));
}

// tests/data/number_formats: the numbers of another implementation.
TEST(NumberFormats, AgreeWithMlDtypes) {
  std::ifstream lines(test::test_data("number_formats/float8.txt"));
  std::string kind, format, from, to;
  int64_t values = 0, codes = 0;
  const auto float_of = [](const std::string& bits) {
    return std::bit_cast<float>(static_cast<uint32_t>(std::stoul(bits, nullptr, 16)));
  };
  while (lines >> kind >> format >> from >> to) {
    if (kind == "value") {
      const int code = std::stoi(from, nullptr, 16);
      const float value = format == "e4m3"   ? value_of<float8_e4m3>(code)
                          : format == "e5m2" ? value_of<float8_e5m2>(code)
                                             : value_of<float8_e8m0>(code);
      const bool equal =
          to == "nan" ? std::isnan(value)
                      : std::bit_cast<uint32_t>(value) == std::bit_cast<uint32_t>(float_of(to));
      EXPECT_TRUE(equal) << format << " " << from << ": " << value;
      ++values;
    } else {
      const float number = float_of(from);
      const int code = format == "e4m3" ? float8_e4m3(number).bits : float8_e5m2(number).bits;
      EXPECT_EQ(code, std::stoi(to, nullptr, 16)) << format << " " << number;
      ++codes;
    }
  }
  EXPECT_EQ(values, 3 * 256);
  EXPECT_GT(codes, 1500);
}

}  // namespace
}  // namespace viaduct
