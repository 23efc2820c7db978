#include "config/one_or_list.h"

#include <gtest/gtest.h>

#include <limits>

#include "config/nearest_valid.h"

namespace viaduct {
namespace {

TEST(OneOrList, ReadsBothAndWritesThemBack) {
  OneOrList<std::string> setting = std::string("p2p");
  EXPECT_FALSE(setting.is_list());
  EXPECT_EQ(setting.at(7), "p2p") << "one for all";
  ASSERT_TRUE(read_value(parse_yaml("[a, b]", "test"), setting));
  EXPECT_TRUE(setting.is_list());
  EXPECT_EQ(setting.at(1), "b");
  EXPECT_EQ(to_flow_yaml(write_value(setting)), "[a, b]");
  ASSERT_TRUE(read_value(parse_yaml("c", "test"), setting));
  EXPECT_EQ(to_flow_yaml(write_value(setting)), "c");
  EXPECT_FALSE(read_value(parse_yaml("{a: b}", "test"), setting));
  EXPECT_EQ(TypeName<OneOrList<std::string>>::text(), "string or list of string");
}

TEST(NearestValid, BothSidesOrTheOneThatIs) {
  EXPECT_EQ(nearest_multiple(30, 8), "24 or 32");
  EXPECT_EQ(nearest_multiple(3, 8), "8") << "no zero";
  EXPECT_EQ(nearest_multiple(16, 8), "16");
  EXPECT_EQ(nearest_divisor(3, 8), "2 or 4");
  EXPECT_EQ(nearest_divisor(16, 8), "8") << "nothing above";
  EXPECT_EQ(nearest_valid(5, [](int64_t n) { return n > 8; }), "9");
  EXPECT_EQ(nearest_valid(
                5, [](int64_t) { return false; }, 100),
            "none");
}

TEST(NearestValid, TheEndsOfTheNumbers) {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  const auto even = [](int64_t n) { return n % 2 == 0; };
  EXPECT_EQ(nearest_valid(kLargest, even), std::to_string(int64_t{1} << 40));
  EXPECT_EQ(nearest_valid(kLargest, even, kLargest), std::to_string(kLargest - 1));
  EXPECT_EQ(nearest_valid(std::numeric_limits<int64_t>::min(), even), "2");
  EXPECT_EQ(nearest_multiple(kLargest, 64), std::to_string(kLargest - 63));
  EXPECT_EQ(nearest_divisor(kLargest, 8), "8");
}

}  // namespace
}  // namespace viaduct
