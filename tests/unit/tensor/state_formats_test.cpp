// Formats of optimizer state: weight and remainder together lose no bit of a master, and storing
// decoded values gives the same bits.

#include "tensor/state_formats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "base/error.h"

namespace viaduct {
namespace {

TEST(SplitMaster, KeepsEveryBit) {
  for (uint64_t i = 0; i < (uint64_t{1} << 32); i += 4099) {
    for (const auto bits : {static_cast<uint32_t>(i), static_cast<uint32_t>(i) | 0x8000u}) {
      const auto master = std::bit_cast<float>(bits);
      ASSERT_EQ(std::bit_cast<uint32_t>(join_master(split_master(master))), bits);
    }
  }
}

TEST(SplitMaster, IsTheUpperHalfRoundedAndTheSignedLowerHalf) {
  EXPECT_EQ(split_master(std::bit_cast<float>(0x3f801234u)), (SplitMaster{0x3f80, 0x1234}));
  EXPECT_EQ(split_master(std::bit_cast<float>(0x3f809234u)),
            (SplitMaster{0x3f81, static_cast<int16_t>(0x9234)}));
  EXPECT_EQ(split_master(std::bit_cast<float>(0xbf807fffu)), (SplitMaster{0xbf80, 0x7fff}));
  // A tie is rounded away from zero, while BF16 rounding chooses the even neighbour.
  EXPECT_EQ(split_master(std::bit_cast<float>(0x3f808000u)), (SplitMaster{0x3f81, -32768}));
  EXPECT_EQ(bfloat16(std::bit_cast<float>(0x3f808000u)).bits, 0x3f80);
  std::mt19937 random(3);
  for (int i = 0; i < 100000; ++i) {
    const auto bits = static_cast<uint32_t>(random());
    const auto master = std::bit_cast<float>(bits);
    if (std::isnan(master) || (bits & 0xffffu) == 0x8000u) continue;
    ASSERT_EQ(split_master(master).weight, bfloat16(master).bits) << std::hex << bits;
  }
}

StateValues coded(DType format, int64_t elements) {
  return {host_tensor(format, {elements}), host_tensor(DType::f32, {state_groups(elements)}), {}};
}

std::vector<float> awkward_group(std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(kStateGroup);
  const int spread = static_cast<int>(random() % 30),
            shift = static_cast<int>(random() % 220) - 110;
  for (float& v : values)
    v = std::ldexp(normal(random), shift - static_cast<int>(random() % (spread + 1u)));
  return values;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.bytes())) == 0;
}

TEST(ScaledState, WhatWasDecodedIsStoredAgainAsItWas) {
  for (const DType format : {DType::e4m3, DType::f16}) {
    std::mt19937 random(7);
    for (int round = 0; round < 3000; ++round) {
      const Tensor values = host_tensor(DType::f32, {kStateGroup});
      const auto group = awkward_group(random);
      std::copy(group.begin(), group.end(), values.data<float>());
      const StateValues once = coded(format, kStateGroup), again = coded(format, kStateGroup);
      encode_state(values, once);
      encode_state(decoded_state(once), again);
      ASSERT_TRUE(same_bytes(once.values, again.values)) << dtype_name(format) << " " << round;
      ASSERT_TRUE(same_bytes(once.scales, again.scales)) << dtype_name(format) << " " << round;
    }
  }
}

TEST(ScaledState, TheLargestMagnitudeHasTheLargestCode) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const Tensor values = host_tensor(DType::f32, {kStateGroup});
    const auto group = awkward_group(random);
    std::copy(group.begin(), group.end(), values.data<float>());
    float largest = 0;
    for (const float v : group) largest = std::max(largest, std::fabs(v));
    if (largest < 1e-25f) continue;
    for (const auto& [format, code, bits] :
         {std::tuple{DType::e4m3, 448.0f, 4}, std::tuple{DType::f16, 32752.0f, 11}}) {
      const StateValues state = coded(format, kStateGroup);
      encode_state(values, state);
      const float scale = *state.scales.data<float>();
      EXPECT_NEAR(scale, largest / code, largest / code * 0x1p-13);
      const Tensor decoded = decoded_state(state);
      // Half a step of the code, or half the step of subnormal numbers.
      const float smallest = scale * (format == DType::e4m3 ? 0x1p-10f : 0x1p-25f);
      for (int64_t i = 0; i < kStateGroup; ++i) {
        const float v = group[static_cast<size_t>(i)];
        EXPECT_LE(std::fabs(decoded.data<float>()[i] - v),
                  std::max(std::fabs(v) * std::ldexp(1.01f, -bits), 1.01f * smallest));
      }
    }
  }
}

TEST(ScaledState, ZerosStayAndWhatIsNotFiniteIsSeen) {
  for (const DType format : {DType::e4m3, DType::f16}) {
    const Tensor values = host_tensor(DType::f32, {3 * kStateGroup});
    auto* v = values.data<float>();
    v[kStateGroup] = std::numeric_limits<float>::infinity();
    v[2 * kStateGroup] = std::numeric_limits<float>::quiet_NaN();
    const StateValues state = coded(format, 3 * kStateGroup);
    encode_state(values, state);
    const Tensor decoded = decoded_state(state);
    for (int64_t i = 0; i < kStateGroup; ++i) EXPECT_EQ(decoded.data<float>()[i], 0);
    EXPECT_FALSE(std::isfinite(decoded.data<float>()[kStateGroup]));
    EXPECT_FALSE(std::isfinite(decoded.data<float>()[2 * kStateGroup]));
  }
}

TEST(ScaledState, SlicesBeginWithAGroup) {
  const StateValues state = coded(DType::e4m3, 200);
  const StateValues part = state.slice(128, 72);
  EXPECT_EQ(part.scales.elements(), 2);
  EXPECT_EQ(part.scales.raw(), state.scales.data<float>() + 2);
  EXPECT_THROW(state.slice(1, 64), ShapeError);
}

}  // namespace
}  // namespace viaduct
